"""Which entries an agent config loses when it holds more than its cap.

The rule that must not break: nothing that stays ranks below anything that goes (SPEC.md section 7).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class PrunableEntry:
    """An entry of the config, of any principal."""

    memory_id: UUID
    importance: float
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """The ids to delete, first to go first, and how many entries remain after that."""

    to_delete: tuple[UUID, ...]
    remaining: int


def prune_key(importance: float, created_at: datetime, memory_id: UUID) -> tuple[float, datetime, int]:
    """Sorts entries by who goes first: lowest importance, then oldest, then lowest id.

    Source: SPEC.md section 7.
    """
    return (importance, created_at, memory_id.int)


def plan_prune(entries: Sequence[PrunableEntry], max_entries: int) -> PrunePlan:
    """What goes so that at most `max_entries` remain; 0 empties the config.

    Raises:
        ValueError: `max_entries` is negative.

    Source: SPEC.md section 7.
    """
    if max_entries < 0:
        raise ValueError(f"a cap is 0 or more, not {max_entries}")
    excess = max(0, len(entries) - max_entries)
    first_to_go = sorted(entries, key=_key)[:excess]
    return PrunePlan(tuple(entry.memory_id for entry in first_to_go), len(entries) - excess)


def _key(entry: PrunableEntry) -> tuple[float, datetime, int]:
    return prune_key(entry.importance, entry.created_at, entry.memory_id)
