"""Loads with 8 callers at growing sizes of one agent config, by turns on the bare trial and on Lorebus."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import asyncpg

from tests.bench import database as tables
from tests.bench.http_wire import Address, post
from tests.bench.lorebus_api import Runner, config_uuid
from tests.bench.patience import until
from tests.bench.samples import percentile
from tests.bench.seeding import principal_name
from tests.bench.sending import send_all
from tests.bench.trial_store import NEWEST, pack, packed
from tests.bench.workload import cues

CALLERS: Final = 8
STRATEGIES: Final = ("last_k", "importance", "full", "pack")
_CUES: Final = 40
RAW: Final = "raw asyncpg"


@dataclass(frozen=True, slots=True)
class LoadRun:
    """One measurement: loads a second, milliseconds; how long after the last answer all of them were recorded."""

    per_second: float
    p50: float
    p99: float
    refused: int = 0
    recorded_seconds: float | None = None


def config_of(size: int) -> UUID:
    """The agent config that holds so many entries."""
    return config_uuid(f"of {size}")


class Loads:
    """Measures one kind of load at one size."""

    def __init__(
        self, lorebus: asyncpg.Connection, runners: Mapping[int, Sequence[Runner]], *, seconds: float
    ) -> None:
        """Take sessions for each size."""
        self._lorebus = lorebus
        self._runners = runners
        self._seconds = seconds
        self._cues = cues(_CUES, seed=1)

    async def of_lorebus(self, address: Address, size: int, strategy: str) -> LoadRun:
        """Loads of Lorebus; what they leave behind is waited for and taken away."""
        requests = [runner.load(strategy, cue) for cue in self._cues for runner in self._runners[size]]
        run, answered = await self._sent(address, requests)
        began = time.monotonic()

        async def recorded() -> bool:
            return await tables.recorded_recalls(self._lorebus) >= answered and await tables.is_quiet(
                self._lorebus
            )

        await until(recorded)
        behind = time.monotonic() - began
        await tables.forget_traces(self._lorebus)
        return LoadRun(run.per_second, run.p50, run.p99, run.refused, behind)

    async def of_trial(self, address: Address, size: int, strategy: str) -> LoadRun:
        """The same-shaped loads of the bare trial: newest 10, or a pack."""
        what = {"last_k": "newest", "pack": "pack"}[strategy]
        paths = [f"/{what}/{config_of(size)}/{principal_name(number)}" for number in range(CALLERS)]
        requests = [post(path, {"cue": cue}) for cue in self._cues for path in paths]
        return (await self._sent(address, requests))[0]

    async def _sent(self, address: Address, requests: Sequence[bytes]) -> tuple[LoadRun, int]:
        sent = await send_all(address, requests, callers=CALLERS, seconds=self._seconds)
        answered = len(sent.milliseconds) - sent.refused
        rate = answered / sent.seconds
        p50, p99 = (percentile(sent.milliseconds, percent) for percent in (50, 99))
        return LoadRun(rate, p50, p99, sent.refused), answered

    async def of_raw(self, database_url: str, size: int, strategy: str) -> LoadRun:
        """The statements alone, from this process, on as many connections as there are callers."""
        settings = {"plan_cache_mode": "force_generic_plan"}
        connections = [await asyncpg.connect(database_url, server_settings=settings) for _ in range(CALLERS)]
        began, milliseconds = time.perf_counter(), list[float]()
        await asyncio.gather(
            *(
                self._call(connection, strategy, (config_of(size), principal_name(number)), milliseconds)
                for number, connection in enumerate(connections)
            )
        )
        seconds = time.perf_counter() - began
        for connection in connections:
            await connection.close()
        p50, p99 = (percentile(milliseconds, percent) for percent in (50, 99))
        return LoadRun(len(milliseconds) / seconds, p50, p99)

    async def _call(
        self, connection: asyncpg.Connection, strategy: str, scope: Sequence[object], out: list[float]
    ) -> None:
        packed_cues = [packed(cue.casefold().split()) for cue in self._cues]
        until_time = time.perf_counter() + self._seconds
        while (asked := time.perf_counter()) < until_time:
            if strategy == "pack":
                await pack(connection, scope, packed_cues[len(out) % len(packed_cues)])
            else:
                await connection.fetch(NEWEST, *scope)
            out.append(1000 * (time.perf_counter() - asked))


async def measure_loads(
    loads: Loads,
    *,
    lorebus: Address,
    trial: Address,
    trial_url: str,
    sizes: Sequence[int],
    repetitions: int,
) -> AsyncIterator[tuple[str, int, str, LoadRun]]:
    """Name, size, strategy and one measurement; all by turns, repetition after repetition."""
    for _ in range(repetitions):
        for size in sizes:
            for strategy in STRATEGIES:
                if strategy in {"last_k", "pack"}:
                    yield RAW, size, strategy, await loads.of_raw(trial_url, size, strategy)
                    yield "bare trial", size, strategy, await loads.of_trial(trial, size, strategy)
                yield "lorebus", size, strategy, await loads.of_lorebus(lorebus, size, strategy)
