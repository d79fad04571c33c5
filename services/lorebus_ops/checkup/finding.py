"""What a check found.

The rule that must not break: what is wrong names its cause and what to do, and never a password.
"""

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """How what was looked at is."""

    GOOD = "good"
    WARNING = "warning"
    WRONG = "wrong"
    UNREACHABLE = "unreachable"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `cause` is a word for programs, `remedy` what to do."""

    check: str
    health: Health
    says: str
    cause: str | None = None
    remedy: str | None = None


def good(check: str, says: str) -> Finding:
    """Nothing is wrong with it."""
    return Finding(check, Health.GOOD, says)


def wrong(check: str, cause: str, says: str, remedy: str) -> Finding:
    """It has to be mended."""
    return Finding(check, Health.WRONG, says, cause, remedy)


def unreachable(check: str, cause: str, says: str, remedy: str) -> Finding:
    """It does not answer, or lets nobody in."""
    return Finding(check, Health.UNREACHABLE, says, cause, remedy)


def warning(check: str, cause: str, says: str, remedy: str) -> Finding:
    """It may be meant so."""
    return Finding(check, Health.WARNING, says, cause, remedy)


def skipped(check: str, says: str) -> Finding:
    """It could not be looked at."""
    return Finding(check, Health.SKIPPED, says)
