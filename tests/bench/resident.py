"""How much memory each process holds: looked at twice a second while a block runs."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import psutil

from tests.bench.samples import slope

EVERY_SECONDS: Final = 0.5
MEGABYTE: Final = 1_000_000
WARM_UP: Final = 0.2
"""The part of a soak in which processes may still grow: caches fill, pools open."""
SECONDS_PER_HOUR: Final = 3_600


@dataclass(slots=True)
class Resident:
    """Megabytes (of 10^6 bytes) of each process by name, at each of `moments` (seconds since the beginning)."""

    moments: list[float] = field(default_factory=list)
    megabytes: dict[str, list[float]] = field(default_factory=dict)

    def highest(self) -> dict[str, float]:
        """The most that each held."""
        return {name: max(values) for name, values in self.megabytes.items()}

    def note(self, moment: float, now: Mapping[str, float]) -> None:
        """Keep one look."""
        self.moments.append(moment)
        for name, megabytes in now.items():
            self.megabytes.setdefault(name, []).append(megabytes)


def megabytes_of(processes: Mapping[str, psutil.Process]) -> dict[str, float]:
    """What each holds now."""
    return {name: process.memory_info().rss / MEGABYTE for name, process in processes.items()}


@asynccontextmanager
async def watched(processes: Mapping[str, psutil.Process]) -> AsyncIterator[Resident]:
    """While the block runs."""
    resident, began = Resident(), time.monotonic()

    async def look() -> None:
        while True:
            resident.note(time.monotonic() - began, megabytes_of(processes))
            await asyncio.sleep(EVERY_SECONDS)

    looking = asyncio.create_task(look())
    try:
        yield resident
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking


def growth(moments: Sequence[float], megabytes: Sequence[float]) -> dict[str, float]:
    """Megabytes after the warm-up and at the end, and how many more an hour by the line through those between."""
    first = int(len(moments) * WARM_UP)
    after = list(moments[first:]), list(megabytes[first:])
    return {
        "after_warm_up": round(after[1][0], 2),
        "at_the_end": round(after[1][-1], 2),
        "per_hour": round(slope(*after) * SECONDS_PER_HOUR, 2),
    }
