"""The sweeper: puts runs that stay `initiated` on the bus again.

A run is accepted through the store together with its outbox row; should the broker lose the record afterwards (a
local one that was restarted empty), the run's own copy of the event is sent once more, with the same event_id.
After the bus was away, what waited in the outbox gets as long to be handled as a new run has: to send all of it twice
would double the work when there is most of it.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from time import monotonic
from typing import Final

from lorebus_contracts.events import Event, PruneRequested, SaveRequested, SessionEnded
from lorebus_contracts.wire import WireError, parse
from lorebus_contracts.workflows import WorkflowType
from lorebus_kit import metrics
from lorebus_kit.backoff import pause
from lorebus_kit.emitting import outbox_row
from lorebus_kit.relay import Relay
from lorebus_store import outbox, runs
from lorebus_store.acting import SystemRole
from lorebus_store.database import Connection, Database
from lorebus_store.outbox import OutboxRow
from lorebus_store.run_rows import StaleRun

STALE_AFTER: Final = timedelta(seconds=20)
SWEEP_SECONDS: Final = 5.0
RUNS_A_SWEEP: Final = 500
_EVENTS: Final[Mapping[WorkflowType, type[Event]]] = {
    WorkflowType.MEMORY_SAVE: SaveRequested,
    WorkflowType.MEMORY_DISTILL: SessionEnded,
    WorkflowType.MEMORY_PRUNE: PruneRequested,
}
_log: Final = logging.getLogger(__name__)


class Sweeper:
    """Looks for stale runs every five seconds; any number of processes may run one."""

    def __init__(self, database: Database, relay: Relay, *, clock: Callable[[], float] = monotonic) -> None:
        self._database = database
        self._relay = relay
        self._clock = clock
        self._not_before = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep until `stop` is set.

        Raises:
            TransientError: PostgreSQL is away; begin again later.
        """
        while not stop.is_set():
            while await self.sweep() == RUNS_A_SWEEP:
                pass
            await pause(SWEEP_SECONDS, stop)

    async def sweep(self) -> int:
        """Put at most 500 stale runs into the outbox again; gives how many."""
        async with self._database.begin(SystemRole.HOUSEKEEPING) as connection:
            if await self._outbox_was_behind(connection):
                return 0
            stale = await runs.stale_initiated(connection, STALE_AFTER, RUNS_A_SWEEP)
            rows = [row for run in stale if (row := _row_of(run)) is not None]
            await outbox.add(connection, rows)
        if rows:
            metrics.SWEPT.inc(len(rows))
            _log.warning("runs put on the bus again", extra={"runs": len(rows)})
            self._relay.wake()
        return len(stale)

    async def _outbox_was_behind(self, connection: Connection) -> bool:
        """Whether its oldest row has waited for too long within the last 20 s."""
        depth = await outbox.depth(connection, limit=1)
        if depth.oldest_age_seconds > STALE_AFTER.total_seconds():
            self._not_before = self._clock() + STALE_AFTER.total_seconds()
        return self._clock() < self._not_before


def _row_of(run: StaleRun) -> OutboxRow | None:
    """The run's event; None for one that no consumer could read either, which must not keep the others back."""
    try:
        return outbox_row(parse(_EVENTS[run.type], run.pending_input), run.pending_input)
    except WireError:
        _log.exception("a waiting run's event cannot be read", extra={"workflow_id": str(run.id)})
        return None
