"""The recent history of the live tail: what a reader that comes back may have missed.

The rule that must not break: a reader is told that nothing is missing only if every record between its place and ours
is here. A place is an offset in each partition, so it means the same in every process.
"""

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from lorebus_contracts.events import ChangeKind

HISTORY_RECORDS: Final = 10_000
HISTORY_BYTES: Final = 16 * 1024 * 1024

Place: TypeAlias = Mapping[int, int]
"""For each partition the offset that is read next."""

_MOST_PARTITIONS: Final = 10_000
_PART: Final = re.compile("p([0-9]{1,5}):([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class Change:
    """One record of `memory.changed`; `data` is its event as JSON on one line."""

    partition: int
    offset: int
    organization_uuid: UUID
    agent_config_uuid: UUID
    kind: ChangeKind
    data: bytes


@dataclass(frozen=True, slots=True)
class Replay:
    """What a reader gets before it is live, oldest first, and where it then is."""

    changes: tuple[Change, ...]
    begins_at: Place
    is_whole: bool


class History:
    """The latest records, at most 10 000 and 16 MiB, and how far each partition is read and remembered."""

    def __init__(self, *, records: int = HISTORY_RECORDS, most_bytes: int = HISTORY_BYTES) -> None:
        self._most_records = records
        self._most_bytes = most_bytes
        self._changes: deque[Change] = deque()
        self._bytes = 0
        self._next: dict[int, int] = {}
        self._first: dict[int, int] = {}

    @property
    def place(self) -> Place:
        """How far it is read."""
        return dict(self._next)

    def has_reached(self, place: Place) -> bool:
        """Whether all before this place is read."""
        return all(self._next.get(partition, 0) >= offset for partition, offset in place.items())

    def begin(self, partition: int, offset: int) -> None:
        """Read a partition from here on; one that is being read already goes on where it is."""
        self._next.setdefault(partition, offset)
        self._first.setdefault(partition, offset)

    def lose(self, partition: int, offset: int) -> None:
        """Go on from here in a partition whose next records are gone: nobody can have missed nothing any more."""
        kept = [change for change in self._changes if change.partition != partition]
        self._changes = deque(kept)
        self._bytes = sum(len(change.data) for change in kept)
        self._next[partition] = self._first[partition] = offset

    def pass_over(self, partition: int, offset: int) -> None:
        """Count a record as read that is no change."""
        self._next[partition] = offset + 1

    def add(self, change: Change) -> None:
        """Remember the change that was read next."""
        self._next[change.partition] = change.offset + 1
        self._changes.append(change)
        self._bytes += len(change.data)
        while len(self._changes) > self._most_records or self._bytes > self._most_bytes:
            oldest = self._changes.popleft()
            self._bytes -= len(oldest.data)
            self._first[oldest.partition] = oldest.offset + 1

    def since(self, place: Place, ends: Place) -> Replay:
        """What came after `place`; `ends` are where the partitions end, for a place ahead of ours.

        Another process may have read further than this one. A place behind the end of its partition is of another
        topic than this one: then, as for records that are forgotten here, the replay is not whole.
        """
        sound = {
            partition: first <= place.get(partition, 0) <= max(ends.get(partition, 0), self._next[partition])
            for partition, first in self._first.items()
        }
        begins_at = {
            partition: place.get(partition, 0) if sound[partition] else first
            for partition, first in self._first.items()
        }
        return Replay(
            changes=tuple(change for change in self._changes if change.offset >= begins_at[change.partition]),
            begins_at=begins_at,
            is_whole=all(sound.values()) and set(place) <= set(self._first),
        )


def write_place(place: Place) -> str:
    """The place as an event's id: `p0:17,p1:3`."""
    return ",".join(f"p{partition}:{offset}" for partition, offset in sorted(place.items()))


def read_place(text: str) -> Place | None:
    """The place that an id says; None when it is none of ours."""
    parts = [_PART.fullmatch(part) for part in text.split(",", _MOST_PARTITIONS)]
    place = {int(part[1]): int(part[2]) for part in parts if part is not None}
    return place if len(place) == len(parts) else None
