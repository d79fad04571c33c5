"""The sampler: looks at outbox and runs on a timer and keeps what it saw as gauges.

It runs beside the prune consumer, which has the least to do. Where there are several of those each looks, never two at
once, so what they say is the same but for its age; whoever adds them up takes the highest.
"""

import asyncio
import itertools
from datetime import timedelta
from time import time
from typing import Final

from lorebus_contracts.workflows import State, WorkflowType
from lorebus_kit import metrics
from lorebus_kit.backoff import pause
from lorebus_store import outbox, sampling
from lorebus_store.acting import SystemRole
from lorebus_store.database import Database
from lorebus_store.outbox import Depth
from lorebus_store.sampling import RunCount

SAMPLE_SECONDS: Final = 10.0
ENDED_WITHIN: Final = timedelta(minutes=5)
"""How long ago a run may have ended that is still counted."""
_TYPES: Final = (WorkflowType.MEMORY_SAVE, WorkflowType.MEMORY_DISTILL, WorkflowType.MEMORY_PRUNE)
"""A load has no row in `workflow_runs`: its run is its recall."""
_OPEN: Final = (State.INITIATED, State.RUN)


class Sampler:
    """Samples every ten seconds."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def run(self, stop: asyncio.Event) -> None:
        """Sample until `stop` is set.

        Raises:
            TransientError: PostgreSQL is away; begin again later.
        """
        while not stop.is_set():
            await self.sample()
            await pause(SAMPLE_SECONDS, stop)

    async def sample(self) -> bool:
        """Look once; False when another process was looking, which tells what it sees.

        Raises:
            TransientError: PostgreSQL is away.
        """
        async with self._database.begin(SystemRole.HOUSEKEEPING) as connection:
            if not await sampling.try_sampling(connection):
                return False
            depth = await outbox.depth(connection)
            runs = await sampling.run_counts(connection, ended_within=ENDED_WITHIN)
        tell(depth, runs)
        return True


def tell(depth: Depth, runs: tuple[RunCount, ...]) -> None:
    """Set the gauges; what was not seen is 0."""
    metrics.OUTBOX_ROWS.set(depth.rows)
    metrics.OUTBOX_AGE.set(depth.oldest_age_seconds)
    seen = {(run.type, run.state): run for run in runs}
    for kind, state in itertools.product(_TYPES, State):
        run = seen.get((kind, state))
        metrics.RUNS.labels(kind, state).set(run.runs if run else 0)
        if state in _OPEN:
            metrics.RUNS_OLDEST.labels(kind, state).set(run.oldest_age_seconds if run else 0)
    metrics.SAMPLED.set(time())
