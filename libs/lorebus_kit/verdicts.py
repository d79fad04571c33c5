"""What a handler says of each event it was given: exactly one verdict an event, in order."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Applied:
    """The event had its effect in this transaction."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The effect was there already; nothing changed."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """The event rightly has no effect; the reason comes from a closed set."""

    reason: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """The event can never be handled as it is: it goes to the dead letters, and nothing is written for it."""

    reason: str


UNKNOWN_ORGANIZATION: Final = "unknown_organization"
"""Why an event is rejected whose organization has no settings (SPEC.md section 2)."""
UNKNOWN_AGENT_CONFIG: Final = "unknown_agent_config"
"""Why an event is skipped whose agent config has none."""

Verdict = Applied | Duplicate | Skipped | Rejected
