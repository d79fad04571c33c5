"""Workflow runs: truthful, durable, completed once."""

import asyncio
import json
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from lorebus_contracts.workflows import FailureOutput, State, WorkflowType
from lorebus_store import outbox, runs
from lorebus_store.acting import SystemRole
from lorebus_store.database import Connection
from lorebus_store.run_rows import Failure, FinishedRun, Run, StaleRun, Step
from tests.integration.store.builders import (
    CONFIG,
    NOON,
    ORGANIZATION,
    OTHER_ORGANIZATION,
    SESSION,
    StoreDatabase,
    finished_run,
    initiated_run,
    run_sql,
    value,
)

RUN = UUID(int=7)
KEY = (ORGANIZATION, RUN)
FAILURE = Failure(
    error="boom",
    error_type="ValueError",
    failed_at=NOON,
    failed_at_state=State.RUN,
    failed_layer="consumer",
    failed_step="run",
    failure_reason="dead_lettered",
)


async def the_run(conn: Connection, run_id: UUID = RUN) -> Run:
    run = await runs.get_run(conn, ORGANIZATION, run_id)
    assert run is not None
    return run


async def fail(conn: Connection, run_id: UUID = RUN) -> bool:
    return await runs.fail(
        conn,
        organization_uuid=ORGANIZATION,
        run_id=run_id,
        run_type=WorkflowType.MEMORY_SAVE,
        agent_config_uuid=CONFIG,
        session_uuid=None,
        created_at=NOON,
        failure=FAILURE,
    )


def steps(run: Run) -> list[str]:
    return [step["state_name"] for step in run.history]


async def test_a_finished_run_tells_its_whole_story(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        recorded = await runs.record_finished(conn, [finished_run(RUN, state_data='{"saved": 1}')])
        run = await the_run(conn)
    assert recorded == {KEY}
    assert run == Run(
        organization_uuid=ORGANIZATION,
        id=RUN,
        type=WorkflowType.MEMORY_SAVE,
        state_name=State.COMPLETED,
        state_data={"saved": 1},
        history=[
            {"state_name": "initiated", "at": "2026-03-01T12:00:00+00:00"},
            {"state_name": "run", "at": "2026-03-01T12:00:00+00:00"},
            {"state_name": "completed", "at": "2026-03-01T12:00:00+00:00"},
        ],
        agent_config_uuid=CONFIG,
        session_uuid=SESSION,
        created_at=NOON,
        updated_at=NOON,
        finished_at=NOON,
        attempts=0,
    )
    assert run.state_name.is_terminal


async def test_a_completed_run_is_never_touched_again(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        await runs.record_finished(conn, [finished_run(RUN, state_data='{"saved": 1}')])
        before = await the_run(conn)
        assert await runs.record_finished(conn, [finished_run(RUN, state_data='{"saved": 2}')]) == set()
        assert await runs.insert_initiated(conn, initiated_run(RUN)) == set()
        assert not await fail(conn)
        assert await the_run(conn) == before


async def test_an_accepted_run_is_completed_with_one_history_and_forgets_its_input(
    database: StoreDatabase,
) -> None:
    async with database.begin() as conn:
        assert await runs.insert_initiated(conn, initiated_run(RUN)) == {KEY}
        assert await runs.insert_initiated(conn, initiated_run(RUN), initiated_run(UUID(int=8))) == {
            (ORGANIZATION, UUID(int=8))
        }
        accepted = await the_run(conn)
        assert await runs.record_finished(conn, [finished_run(RUN)]) == {KEY}
        finished = await the_run(conn)
        pending = await value(conn, "SELECT pending_input FROM lorebus.workflow_runs WHERE id = :id", id=RUN)
    assert (accepted.state_name, steps(accepted)) == (State.INITIATED, ["initiated"])
    assert (finished.state_name, steps(finished)) == (State.COMPLETED, ["initiated", "run", "completed"])
    assert pending is None


async def test_a_failed_run_says_all_seven_things_and_may_still_complete(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        await runs.insert_initiated(conn, initiated_run(RUN))
        assert await fail(conn)
        assert not await fail(conn)
        failed = await the_run(conn)
        assert await runs.record_finished(conn, [finished_run(RUN)]) == {KEY}
        completed = await the_run(conn)
    assert (failed.state_name, steps(failed)) == (State.FAILED, ["initiated", "failed"])
    assert set(failed.state_data) == set(FailureOutput.model_fields)
    assert failed.state_data["failed_at"] == "2026-03-01T12:00:00+00:00"
    assert steps(completed) == ["initiated", "failed", "run", "completed"]
    assert completed.state_data == {}


async def test_a_run_that_nobody_accepted_can_fail_as_well(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        assert await fail(conn)
        assert steps(await the_run(conn)) == ["initiated", "failed"]


async def test_two_consumers_of_one_batch_record_each_run_once(database: StoreDatabase) -> None:
    ids = [uuid4() for _ in range(30)]

    async def consume(order: list[UUID]) -> int:
        async with database.begin() as conn:
            return len(await runs.record_finished(conn, [finished_run(run_id) for run_id in order]))

    recorded = await asyncio.gather(consume(ids), consume(ids[::-1]), consume(ids[10:] + ids[:10]))
    assert sorted(recorded) == [0, 0, 30]


async def test_known_runs_are_told_with_their_states(database: StoreDatabase) -> None:
    other = (ORGANIZATION, UUID(int=9))
    async with database.begin() as conn:
        await runs.record_finished(conn, [finished_run(RUN)])
        await runs.insert_initiated(conn, initiated_run(UUID(int=9)))
        known = await runs.known_runs(
            conn, [KEY, other, (ORGANIZATION, UUID(int=1)), (OTHER_ORGANIZATION, RUN)]
        )
        assert await runs.known_runs(conn, []) == {}
        assert await runs.record_finished(conn, []) == set()
        assert await runs.get_run(conn, OTHER_ORGANIZATION, RUN) is None
    assert known == {KEY: State.COMPLETED, other: State.INITIATED}


async def test_runs_are_listed_newest_first(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        for number in range(3):
            await runs.record_finished(conn, [finished_run(UUID(int=number))])
        await runs.insert_initiated(conn, initiated_run(UUID(int=3)))
        of_state = await runs.list_runs(
            conn, ORGANIZATION, run_type=WorkflowType.MEMORY_SAVE, state_name=State.COMPLETED, limit=2
        )
        of_session = await runs.runs_of_session(conn, ORGANIZATION, SESSION, limit=10)
    assert [run.id.int for run in of_state] == [2, 1]
    assert [run.id.int for run in of_session] == [3, 2, 1, 0]


async def test_a_run_that_stays_accepted_is_swept_once_in_a_while(database: StoreDatabase) -> None:
    minute = timedelta(minutes=1)
    async with database.begin() as conn:
        await runs.insert_initiated(conn, initiated_run(RUN, pending_input=b"exactly this"))
        await runs.insert_initiated(conn, initiated_run(UUID(int=8)))
        await run_sql(
            conn,
            "UPDATE lorebus.workflow_runs SET updated_at = now() - interval '2 minutes',"
            " created_at = now() - interval '2 minutes' WHERE id = :id",
            id=RUN,
        )
        swept = await runs.stale_initiated(conn, minute, 10)
        assert await runs.stale_initiated(conn, minute, 10) == ()
    assert swept == (StaleRun(ORGANIZATION, RUN, WorkflowType.MEMORY_SAVE, CONFIG, SESSION, b"exactly this"),)


@pytest.mark.parametrize(("seconds", "swept_again"), [(41, True), (39, False)])
async def test_a_run_that_was_swept_waits_as_long_again_as_it_has_waited(
    database: StoreDatabase, seconds: int, *, swept_again: bool
) -> None:
    async with database.begin() as conn:
        await runs.insert_initiated(conn, initiated_run(RUN))
        await run_sql(
            conn,
            "UPDATE lorebus.workflow_runs SET updated_at = now() - make_interval(secs => :seconds),"
            " created_at = now() - make_interval(secs => :seconds + 40)",
            seconds=seconds,
        )
        swept = await runs.stale_initiated(conn, timedelta(seconds=20), 10)
    assert [run.id for run in swept] == ([RUN] if swept_again else [])


async def test_nothing_is_swept_while_the_outbox_is_behind(database: StoreDatabase) -> None:
    async with database.owner() as conn:
        await runs.insert_initiated(conn, initiated_run(RUN))
        await outbox.add(conn, [outbox.OutboxRow(ORGANIZATION, "memory.save-requested", b"key", b"", RUN)])
        await run_sql(conn, "UPDATE lorebus.workflow_runs SET updated_at = now() - interval '1 day'")
        await run_sql(conn, "UPDATE lorebus.outbox SET created_at = now() - interval '1 hour'")
        behind = await runs.stale_initiated(conn, timedelta(minutes=1), 10)
        await run_sql(conn, "UPDATE lorebus.outbox SET created_at = now() - interval '1 second'")
        in_time = await runs.stale_initiated(conn, timedelta(minutes=1), 10)
    assert (behind, [run.id for run in in_time]) == ((), [RUN])


async def test_two_sweepers_never_get_the_same_run(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        await runs.insert_initiated(conn, *(initiated_run(UUID(int=number)) for number in range(10)))
        await run_sql(conn, "UPDATE lorebus.workflow_runs SET updated_at = now() - interval '1 day'")
    async with (
        database.begin(SystemRole.HOUSEKEEPING) as first,
        database.begin(SystemRole.HOUSEKEEPING) as second,
    ):
        swept = (
            *await runs.stale_initiated(first, timedelta(minutes=1), 5),
            *await runs.stale_initiated(second, timedelta(minutes=1), 50),
        )
    assert sorted(run.id.int for run in swept) == list(range(10))


async def test_what_a_step_says_is_kept(database: StoreDatabase) -> None:
    run = finished_run(RUN)
    told = [Step(State.RUN, NOON, json.dumps({"lessons": ['a "quoted" word', "💡"]}))]
    async with database.begin() as conn:
        await runs.record_finished(conn, [_with_steps(run, told)])
        kept = await the_run(conn)
    assert kept.history[1]["data"] == {"lessons": ['a "quoted" word', "💡"]}


def _with_steps(run: FinishedRun, told: list[Step]) -> FinishedRun:
    return FinishedRun(
        organization_uuid=run.organization_uuid,
        id=run.id,
        type=run.type,
        state_name=run.state_name,
        state_data=run.state_data,
        agent_config_uuid=run.agent_config_uuid,
        session_uuid=run.session_uuid,
        created_at=run.created_at,
        finished_at=run.finished_at,
        steps=told,
    )
