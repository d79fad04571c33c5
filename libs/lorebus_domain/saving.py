"""What a save request becomes: entries kept with their identity, others skipped with a reason, rows.

The rule that must not break: nothing of a request is lost without a reason, and a text that comes twice is
one entry (SPEC.md section 3).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

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


@dataclass(frozen=True, slots=True)
class KeptEntry:
    """An entry to save: cleaned text, 32 bytes of fingerprint; `position` counts from 0 in the request."""

    position: int
    text: str
    importance: float
    fingerprint: bytes
    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SkippedEntry:
    """An entry that is not saved; `position` counts from 0 in the request."""

    position: int
    reason: EntrySkip


@dataclass(frozen=True, slots=True)
class SavePlan:
    """Every entry of a request once, kept or skipped, each in the request's order."""

    kept: tuple[KeptEntry, ...]
    skipped: tuple[SkippedEntry, ...]


@dataclass(frozen=True, slots=True)
class FoldedEntry:
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


def plan_save(entries: Sequence[Entry]) -> SavePlan:
    """Which entries are saved and which are skipped, and why.

    The same text twice is kept twice; `fold` joins them. Cleaning is done again here, harmlessly.
    Source: SPEC.md section 3, steps 1 to 4.
    """
    planned = [_plan_entry(position, entry) for position, entry in enumerate(entries)]
    return SavePlan(
        kept=tuple(entry for entry in planned if isinstance(entry, KeptEntry)),
        skipped=tuple(entry for entry in planned if isinstance(entry, SkippedEntry)),
    )


def fold(kept: Iterable[tuple[MemoryScope, KeptEntry]]) -> tuple[FoldedEntry, ...]:
    """One row per (scope, fingerprint), sorted by them, so that two batch upserts cannot deadlock.

    A new row stands for 1 saved and `occurrences - 1` reinforced, a known one for `occurrences` reinforced.
    Source: SPEC.md section 3, steps 5 and 6.
    """
    folded: dict[tuple[MemoryScope, bytes], FoldedEntry] = {}
    for scope, entry in kept:
        key = (scope, entry.fingerprint)
        first = folded.get(key)
        folded[key] = _first_of(scope, entry) if first is None else _joined(first, entry)
    return tuple(sorted(folded.values(), key=lambda row: (row.scope.sort_key(), row.fingerprint)))


def _plan_entry(position: int, entry: Entry) -> KeptEntry | SkippedEntry:
    if entry.importance < policy.MIN_IMPORTANCE:
        return SkippedEntry(position, EntrySkip.LOW_IMPORTANCE)
    text = clean(entry.text)
    form = normal_form(text)
    if not form:
        return SkippedEntry(position, EntrySkip.EMPTY_TEXT)
    return KeptEntry(position, text, entry.importance, fingerprint_of_normal_form(form), terms(text))


def _first_of(scope: MemoryScope, entry: KeptEntry) -> FoldedEntry:
    return FoldedEntry(
        scope=scope,
        fingerprint=entry.fingerprint,
        text=entry.text,
        importance=entry.importance,
        occurrences=1,
        terms=entry.terms,
    )


def _joined(first: FoldedEntry, entry: KeptEntry) -> FoldedEntry:
    return replace(
        first, importance=max(first.importance, entry.importance), occurrences=first.occurrences + 1
    )
