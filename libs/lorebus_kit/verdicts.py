"""What a handler says of each event it was given: exactly one verdict an event, in order."""

from dataclasses import dataclass


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
    """The event can never be handled as it is: it goes to the dead letters with this reason."""

    reason: str


Verdict = Applied | Duplicate | Skipped | Rejected
