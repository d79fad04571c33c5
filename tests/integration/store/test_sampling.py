"""What is counted of the system as a whole, at a cost that does not grow with it."""

from datetime import timedelta
from uuid import UUID

from lorebus_contracts.workflows import State, WorkflowType
from lorebus_store import outbox, runs, sampling
from lorebus_store.outbox import OutboxRow
from lorebus_store.sampling import RunCount
from tests.integration.store.builders import (
    ORGANIZATION,
    StoreDatabase,
    finished_run,
    initiated_run,
    plan,
    run_sql,
)

WITHIN = timedelta(minutes=5)
SAVE = WorkflowType.MEMORY_SAVE


async def test_runs_are_counted_by_type_and_state_with_the_age_of_the_oldest(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        await runs.insert_initiated(conn, *(initiated_run(UUID(int=number)) for number in (1, 2, 3)))
        await runs.record_finished(conn, [finished_run(UUID(int=number)) for number in (4, 5)])
        await run_sql(conn, "UPDATE lorebus.workflow_runs SET created_at = now() - interval '90 seconds'")
        await run_sql(
            conn, "UPDATE lorebus.workflow_runs SET finished_at = now() WHERE finished_at IS NOT NULL"
        )

        counted = await sampling.run_counts(conn, ended_within=WITHIN)

    assert counted == (
        RunCount(SAVE, State.COMPLETED, 2, 90.0),
        RunCount(SAVE, State.INITIATED, 3, 90.0),
    )


async def test_runs_that_ended_long_ago_are_not_counted(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        await runs.record_finished(conn, [finished_run(UUID(int=4))])
        await run_sql(conn, "UPDATE lorebus.workflow_runs SET finished_at = now() - interval '301 seconds'")

        assert await sampling.run_counts(conn, ended_within=WITHIN) == ()


async def test_counting_stops_at_its_limit(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        await runs.insert_initiated(conn, *(initiated_run(UUID(int=number)) for number in range(1, 8)))
        await outbox.add(conn, [OutboxRow(ORGANIZATION, "memory.changed", b"a", b"1", UUID(int=9))] * 7)

        (counted,) = await sampling.run_counts(conn, ended_within=WITHIN, limit=5)

        assert counted.runs == 5
        assert (await outbox.depth(conn, limit=5)).rows == 5


async def test_one_looks_at_a_time(database: StoreDatabase) -> None:
    async with database.begin() as first, database.begin() as second:
        assert await sampling.try_sampling(first)
        assert not await sampling.try_sampling(second)

    async with database.begin() as third:
        assert await sampling.try_sampling(third)


async def test_a_look_walks_indexes_only(database: StoreDatabase) -> None:
    async with database.read() as conn:
        lines = await plan(conn, sampling._RUNS)

    assert "Seq Scan" not in lines
    for index in ("workflow_runs_initiated", "workflow_runs_due", "workflow_runs_finished"):
        assert index in lines
