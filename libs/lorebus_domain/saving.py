"""What a save request becomes: entries kept with their identity, others skipped with a reason, rows.

The rule that must not break: nothing of a request is lost without a reason, and a text that comes twice is
one entry (SPEC.md section 3).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, Protocol

from lorebus_domain import policy
from lorebus_domain.fingerprint import fingerprint_of_normal_form
from lorebus_domain.terms import terms
from lorebus_domain.text import clean, normal_form
from lorebus_domain.visibility import Caller, MemoryScope, write_scope


class EntrySkip(StrEnum):
    """Why one entry of a request is not saved."""

    LOW_IMPORTANCE = "low_importance"
    EMPTY_TEXT = "empty_text"


class SaveSkip(StrEnum):
    """Why a whole save run writes nothing (`skipped_reason`)."""

    MEMORY_DISABLED = "memory_disabled"
    UNIDENTIFIED_END_USER = "unidentified_end_user"
    UNKNOWN_AGENT_CONFIG = "unknown_agent_config"
    ERASED = "erased"


class Offered(Protocol):
    """A text that may become memory, importance in [0, 1]: an `Entry`, or an entry of a request that was checked."""

    @property
    def text(self) -> str:
        """The text, cleaned or not."""

    @property
    def importance(self) -> float:
        """How much it matters."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A text to remember, importance in [0, 1].

    Raises:
        ValueError: the importance is outside [0, 1] or no number; a NaN would win every maximum.
    """

    text: str
    importance: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.importance <= 1.0:
            raise ValueError(f"an importance is in [0, 1], not {self.importance}")


class KeptEntry(NamedTuple):
    """An entry to save: cleaned text, 32 bytes of fingerprint; `position` counts from 0 in the request."""

    position: int
    text: str
    importance: float
    fingerprint: bytes
    terms: tuple[str, ...]


class SkippedEntry(NamedTuple):
    """An entry that is not saved; `position` counts from 0 in the request."""

    position: int
    reason: EntrySkip


@dataclass(frozen=True, slots=True)
class SavePlan:
    """Every entry of a request once, kept or skipped, each in the request's order."""

    kept: tuple[KeptEntry, ...]
    skipped: tuple[SkippedEntry, ...]


class FoldedEntry(NamedTuple):
    """All saves of one text in one scope: the highest importance, and how many saves (1 or more).

    `text` and `terms` are the first seen, because texts with one fingerprint may still be spelt differently.
    """

    scope: MemoryScope
    fingerprint: bytes
    text: str
    importance: float
    occurrences: int
    terms: tuple[str, ...]


def save_gate(*, organization_enabled: bool, config_enabled: bool, caller: Caller) -> SaveSkip | None:
    """Why this save writes nothing, or None when it may.

    Source: SPEC.md sections 3 and 6.
    """
    if not (organization_enabled and config_enabled):
        return SaveSkip.MEMORY_DISABLED
    if write_scope(caller) is None:
        return SaveSkip.UNIDENTIFIED_END_USER
    return None


def plan_save(entries: Iterable[Offered]) -> SavePlan:
    """Which entries are saved and which are skipped, and why.

    The same text twice is kept twice; `fold` joins them. Cleaning is done again here, harmlessly.
    Source: SPEC.md section 3, steps 1 to 4.
    """
    kept: list[KeptEntry] = []
    skipped: list[SkippedEntry] = []
    for position, entry in enumerate(entries):
        planned = _plan_entry(position, entry)
        if isinstance(planned, KeptEntry):
            kept.append(planned)
        else:
            skipped.append(planned)
    return SavePlan(tuple(kept), tuple(skipped))


def fold(kept: Iterable[tuple[MemoryScope, KeptEntry]]) -> tuple[FoldedEntry, ...]:
    """One row per (scope, fingerprint), sorted by them, so that two batch upserts cannot deadlock.

    A new row stands for 1 saved and `occurrences - 1` reinforced, a known one for `occurrences` reinforced.
    Source: SPEC.md section 3, steps 5 and 6.
    """
    folded: dict[MemoryScope, dict[bytes, FoldedEntry]] = {}
    # A scope is looked up once for all entries of a save, which come together.
    for scope, of_save in groupby(kept, key=itemgetter(0)):
        rows = folded.setdefault(scope, {})
        for _, entry in of_save:
            first = rows.get(entry.fingerprint)
            rows[entry.fingerprint] = _first_of(scope, entry) if first is None else _joined(first, entry)
    return tuple(
        folded[scope][fingerprint]
        for scope in sorted(folded, key=MemoryScope.sort_key)
        for fingerprint in sorted(folded[scope])
    )


def _plan_entry(position: int, entry: Offered) -> KeptEntry | SkippedEntry:
    if entry.importance < policy.MIN_IMPORTANCE:
        return SkippedEntry(position, EntrySkip.LOW_IMPORTANCE)
    text = clean(entry.text)
    form = normal_form(text)
    if not form:
        return SkippedEntry(position, EntrySkip.EMPTY_TEXT)
    return KeptEntry(position, text, entry.importance, fingerprint_of_normal_form(form), terms(text))


def _first_of(scope: MemoryScope, entry: KeptEntry) -> FoldedEntry:
    return FoldedEntry(scope, entry.fingerprint, entry.text, entry.importance, 1, entry.terms)


def _joined(first: FoldedEntry, entry: KeptEntry) -> FoldedEntry:
    return first._replace(
        importance=max(first.importance, entry.importance), occurrences=first.occurrences + 1
    )
