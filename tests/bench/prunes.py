"""Pruning half of an agent config, by turns as Lorebus does it and as plain deletes in steps, with loads going on.

The loads are of another agent config, at the same steady rate before and meanwhile, so that both are compared alike.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import asyncpg

from tests.bench import database as tables
from tests.bench.generator import Sent
from tests.bench.loads import CALLERS
from tests.bench.lorebus_api import LorebusApi, config_uuid
from tests.bench.patience import until
from tests.bench.samples import percentile
from tests.bench.seeding import Seed, fill
from tests.bench.sending import send_all
from tests.bench.trial_store import DELETE_STEP

CONFIG: Final = config_uuid("pruned")
STEP: Final = 5_000
LOADS_PER_SECOND: Final = 100.0
QUIET_SECONDS: Final = 3.0
LOADING_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class PruneRun:
    """One measurement: seconds of the prune, p99 of the loads in milliseconds before and meanwhile, what is left."""

    seconds: float
    p99_before: float
    p99_meanwhile: float
    remaining: int


class Prunes:
    """Prunes the same entries again and again."""

    def __init__(
        self,
        api: LorebusApi,
        *,
        organization: UUID,
        lorebus: asyncpg.Connection,
        trial: asyncpg.Connection,
        loads: Sequence[bytes],
        entries: Sequence[Seed],
    ) -> None:
        """Take requests of loads to send meanwhile, and the entries of the config, half of which go."""
        self._api = api
        self._organization = organization
        self._lorebus = lorebus
        self._trial = trial
        self._loads = loads
        self._entries = entries
        self._keep = len(entries) // 2

    async def measure(self, *, repetitions: int) -> AsyncIterator[tuple[str, PruneRun]]:
        """Name and one measurement, by turns."""
        for _ in range(repetitions):
            await self._fill()
            yield "raw stepped delete", await self._with_loads(self._delete, self._left_by_delete)
            yield "lorebus", await self._with_loads(self._prune, self._left_by_prune)

    async def _fill(self) -> None:
        await tables.forget_config(self._lorebus, CONFIG)
        await self._trial.execute("DELETE FROM mem WHERE config = $1", CONFIG)
        await fill(
            self._lorebus,
            self._trial,
            organization=self._organization,
            config=CONFIG,
            entries=iter(self._entries),
        )
        await tables.settle(self._lorebus, "lorebus.memories")
        await tables.settle(self._trial, "mem")

    async def _with_loads(
        self, prune: Callable[[], Awaitable[None]], count: Callable[[], Awaitable[int]]
    ) -> PruneRun:
        before = await self._load(QUIET_SECONDS)
        # The loads outlast the prune; of them only what was answered while it ran counts.
        loading = asyncio.create_task(self._load(LOADING_SECONDS))
        await asyncio.sleep(1.0)
        began = time.time()
        await prune()
        ended = time.time()
        sent = await loading
        await self._until_recorded(len(before.milliseconds) + len(sent.milliseconds))
        meanwhile = answered_between(sent, began, ended) or sent.milliseconds
        return PruneRun(
            ended - began, percentile(before.milliseconds, 99), percentile(meanwhile, 99), await count()
        )

    async def _until_recorded(self, loads: int) -> None:
        """Wait until the loads are recorded, so that nothing of them is under way in the next measurement."""

        async def recorded() -> bool:
            return await tables.recorded_recalls(self._lorebus) >= loads

        await until(recorded)
        await until(lambda: tables.is_quiet(self._lorebus))
        await tables.forget_traces(self._lorebus)

    async def _load(self, seconds: float) -> Sent:
        return await send_all(
            self._api.address,
            self._loads,
            callers=CALLERS,
            seconds=seconds,
            per_second=LOADS_PER_SECOND,
        )

    async def _delete(self) -> None:
        left = len(self._entries) - self._keep
        while left:
            await self._trial.execute(DELETE_STEP, CONFIG, min(STEP, left))
            left -= min(STEP, left)

    async def _left_by_delete(self) -> int:
        return int(await self._trial.fetchval("SELECT count(*) FROM mem WHERE config = $1", CONFIG))

    async def _prune(self) -> None:
        run = await self._api.prune(CONFIG, keep=self._keep)
        await until(lambda: tables.prune_is_done(self._lorebus, run))

    async def _left_by_prune(self) -> int:
        return await self._api.total(CONFIG)


def answered_between(sent: Sent, began: float, ended: float) -> list[float]:
    """Milliseconds of the requests that were answered between two moments of the wall clock."""
    return [
        took
        for took, moment in zip(sent.milliseconds, sent.moments, strict=True)
        if began <= sent.began + moment <= ended
    ]
