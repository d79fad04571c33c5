"""The record of the fault suite: one JSON line for each scenario that ran, written where LOREBUS_FAULT_LOG says."""

import asyncio
import json
import os
import random
import time
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

ROUNDS_VARIABLE: Final = "LOREBUS_FAULT_ROUNDS"
SEED_VARIABLE: Final = "LOREBUS_FAULT_SEED"
LOG_VARIABLE: Final = "LOREBUS_FAULT_LOG"
OUTCOME: Final = pytest.StashKey[str]()
"""Where a conftest's hook leaves how the scenario ended: `passed` or `failed`."""

CI_ROUNDS: Final = 1
FULL_ROUNDS: Final = 20
CI_SECONDS_AWAY: Final = 8.0
FULL_SECONDS_AWAY: Final = 60.0
FULL_OUTAGES: Final = 3


@dataclass(slots=True)
class Fault:
    """One scenario's run: how often it is to inject its fault, with which seed, and what came of it."""

    name: str
    broker: str
    seed: int
    rounds: int
    injected: int = 0
    """Counted up by the scenario."""

    verdict: str = "failed"

    @property
    def rng(self) -> random.Random:
        """Random numbers that follow from the seed and the scenario's name."""
        return random.Random(zlib.crc32(self.name.encode()) + self.seed)

    @property
    def outages(self) -> int:
        """How many times a store is away for long."""
        return FULL_OUTAGES if self.rounds >= FULL_ROUNDS else 1

    async def lasts(self, seconds: float | None = None) -> None:
        """Let an outage last, long unless told otherwise: its length is the fault, there is no condition to await."""
        long = FULL_SECONDS_AWAY if self.rounds >= FULL_ROUNDS else CI_SECONDS_AWAY
        await asyncio.sleep(long if seconds is None else seconds)


def recorded(request: pytest.FixtureRequest, broker: str) -> Iterator[Fault]:
    """The body of a fixture: the scenario's run, whose line is written when it has ended."""
    fault = Fault(request.node.name, broker, seed(), rounds())
    started = time.monotonic()
    yield fault
    fault.verdict = request.node.stash.get(OUTCOME, "failed")
    path = os.environ.get(LOG_VARIABLE)
    if path:
        line = asdict(fault) | {
            "seconds": round(time.monotonic() - started, 1),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        with Path(path).open("a") as log:
            log.write(json.dumps(line) + "\n")


def rounds() -> int:
    """How often each scenario injects its fault."""
    return int(os.environ.get(ROUNDS_VARIABLE, CI_ROUNDS))


def seed() -> int:
    """What all random choices follow from."""
    return int(os.environ.get(SEED_VARIABLE, "1"))
