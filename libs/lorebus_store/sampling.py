"""What the system looks like as a whole, for its gauges: how many runs are in which state, and for how long.

The rule that must not break: a look costs the same however large the tables are. Each part walks one partial index
and stops at a limit, so a count that has reached it means "at least". These are queues of the system: the rows may be
any organization's, and nothing but their number is told.
"""

from datetime import timedelta
from typing import Final, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_contracts.workflows import State, WorkflowType
from lorebus_store.outbox import MOST_COUNTED
from lorebus_store.statements import Statement


class RunCount(NamedTuple):
    """Runs of one type in one state: how many, and how long the oldest of them has been there."""

    type: WorkflowType
    state: State
    runs: int
    oldest_age_seconds: float


_TRY: Final = Statement("SELECT pg_try_advisory_xact_lock(hashtextextended('lorebus.sampling', 0))")
# By the indexes workflow_runs_initiated, workflow_runs_due and workflow_runs_finished.
_RUNS: Final = Statement(
    """
    SELECT type, state_name, count(*), CAST(extract(epoch FROM now() - min(created_at)) AS double precision)
    FROM (
        (
            SELECT type, state_name, created_at FROM lorebus.workflow_runs
            WHERE state_name = 'initiated' ORDER BY updated_at LIMIT :limit
        )
        UNION ALL
        (
            SELECT type, state_name, created_at FROM lorebus.workflow_runs
            WHERE state_name = 'run' LIMIT :limit
        )
        UNION ALL
        (
            SELECT type, state_name, created_at FROM lorebus.workflow_runs
            WHERE finished_at IS NOT NULL AND finished_at > now() - CAST(:ended_within AS interval)
            ORDER BY finished_at DESC LIMIT :limit
        )
    ) AS r
    GROUP BY type, state_name ORDER BY type, state_name
    """
)


async def try_sampling(conn: AsyncConnection) -> bool:
    """Whether this transaction may look; False while another one does."""
    taken: bool = await _TRY.value(conn)
    return taken


async def run_counts(
    conn: AsyncConnection, *, ended_within: timedelta, limit: int = MOST_COUNTED
) -> tuple[RunCount, ...]:
    """Runs by type and state: all that have not ended, and those that ended within this time.

    At most `limit` are looked at of each of `initiated`, `run`, and ended; of ended ones the latest.
    """
    rows = await _RUNS.rows(conn, {"limit": limit, "ended_within": ended_within})
    return tuple(RunCount(WorkflowType(kind), State(state), number, age) for kind, state, number, age in rows)
