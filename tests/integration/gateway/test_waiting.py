"""Waiting for runs: `Prefer: wait=N` (RFC 7240), and a watched run's server-sent events."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import httpx
import pytest

from lorebus_contracts.workflows import State, WorkflowType
from lorebus_gateway.authentication import Organization
from lorebus_gateway.run_changes import RunChanges
from lorebus_gateway.run_status import RunStatus
from lorebus_gateway.waiting import RunWaiting
from lorebus_kit.run_ids import RunIds
from lorebus_store import runs
from lorebus_store.acting import ActsFor
from lorebus_store.database import Connection
from lorebus_store.run_rows import Failure, FinishedRun, Step
from tests.support.databases import ArrangedDatabase, database_away
from tests.support.event_streams import event_stream
from tests.support.gateways import TOKEN_SECRET, Asking, Registered, running_gateway, serving

APP = "/api/app/agents"
WAIT = {"prefer": "wait=20"}


async def finish(gateway: Asking, run_id: str) -> None:
    """What the save consumer does."""
    now = datetime.now(UTC)
    async with gateway.database.begin() as connection:
        run = await runs.get_run(connection, gateway.organization_uuid, UUID(run_id))
        assert run is not None
        finished = FinishedRun(
            organization_uuid=gateway.organization_uuid,
            id=run.id,
            type=run.type,
            state_name=State.COMPLETED,
            state_data='{"saved": 1}',
            agent_config_uuid=run.agent_config_uuid,
            session_uuid=run.session_uuid,
            created_at=run.created_at,
            finished_at=now,
            steps=(Step(State.RUN, now), Step(State.COMPLETED, now)),
        )
        await runs.record_finished(connection, [finished])


async def finish_the_only_run(gateway: Asking) -> str:
    """Finish the run that is accepted sooner or later; its id."""

    async def is_there() -> bool:
        return bool(await gateway.rows("SELECT id FROM lorebus.workflow_runs"))

    await gateway.until(is_there)
    (row,) = await gateway.rows("SELECT id FROM lorebus.workflow_runs")
    await finish(gateway, str(row["id"]))
    return str(row["id"])


async def a_session(gateway: Asking) -> Registered:
    return await gateway.session(await gateway.config(), {"kind": "end_user", "ref": "bob"})


async def test_a_save_that_ends_in_time_is_answered_with_its_run(gateway: Asking) -> None:
    session = await a_session(gateway)

    answer, run_id = await asyncio.gather(
        gateway.save(session, {"content": "likes tea"}, headers=WAIT), finish_the_only_run(gateway)
    )

    assert answer.status_code == 200
    assert answer.headers["preference-applied"] == "wait=20"
    assert answer.headers["location"] == f"/api/workflows/{run_id}"
    run = answer.json()
    assert (run["workflow_id"], run["state_name"], run["is_terminal"]) == (run_id, "completed", True)
    assert run["state_data"]["saved"] == 1


@pytest.mark.parametrize("seconds", [0, 1])
async def test_a_save_that_takes_longer_is_answered_as_accepted(gateway: Asking, seconds: int) -> None:
    session = await a_session(gateway)

    answer = await gateway.save(session, {"content": "likes tea"}, headers={"prefer": f"wait={seconds}"})

    assert answer.status_code == 202
    assert list(answer.json()) == ["workflow_id"]
    assert answer.headers["preference-applied"] == f"wait={seconds}"


@pytest.mark.parametrize(
    "wish",
    ["wait", "wait=", "wait=-1", "wait=soon", "wait=1.5", "wait=1e3", "respond-async", "waits=3", ""],
)
async def test_a_wish_that_cannot_be_understood_is_passed_over(gateway: Asking, wish: str) -> None:
    session = await a_session(gateway)

    answer = await gateway.save(session, {"content": "likes tea"}, headers={"prefer": wish})

    assert answer.status_code == 202
    assert "preference-applied" not in answer.headers


@pytest.mark.parametrize(
    ("wish", "applied"),
    [
        ("respond-async, wait=7", "wait=7"),
        ('Wait = "8"; foo=1, wait=9', "wait=8"),
        ("wait=31", "wait=30"),
        ("wait=999999999", "wait=30"),
    ],
)
async def test_the_first_wish_counts_and_thirty_seconds_are_the_most(
    gateway: Asking, wish: str, applied: str
) -> None:
    session = await a_session(gateway)

    answer, _ = await asyncio.gather(
        gateway.save(session, {"content": "likes tea"}, headers={"prefer": wish}),
        finish_the_only_run(gateway),
    )

    assert (answer.status_code, answer.headers["preference-applied"]) == (200, applied)


@pytest.mark.parametrize("what", ["prune", "start"])
async def test_any_accepted_run_can_be_waited_for(gateway: Asking, what: str) -> None:
    config = str(await gateway.config())
    ids = {"organization_uuid": str(gateway.organization_uuid), "agent_config_uuid": config}
    path, body = {
        "prune": (f"{APP}/memory/prune", {"agent_config_uuid": config}),
        "start": ("/api/workflows/start", {"workflow_type": "agents.memory-prune", "initial_data": ids}),
    }[what]

    answer, run_id = await asyncio.gather(
        gateway.ask("POST", path, json=body, headers=WAIT), finish_the_only_run(gateway)
    )

    assert (answer.status_code, answer.json()["workflow_id"]) == (200, run_id)
    assert answer.json()["state_name"] == "completed"


async def test_the_end_of_a_session_can_be_waited_for_until_it_is_distilled(gateway: Asking) -> None:
    session = await a_session(gateway)
    path = f"{APP}/sessions/{session.uuid}/end"
    body = {"outcome": "success", "step_count": 3}

    answer, run_id = await asyncio.gather(
        gateway.ask("POST", path, json=body, headers=WAIT), finish_the_only_run(gateway)
    )

    assert (answer.status_code, answer.json()["workflow_id"]) == (200, run_id)


async def test_a_rating_starts_no_run_and_so_is_not_waited_for(gateway: Asking) -> None:
    session = await a_session(gateway)

    answer = await gateway.ask(
        "POST", f"{APP}/sessions/{session.uuid}/rating", json={"quality_score": 1.0}, headers=WAIT
    )

    assert answer.status_code == 202
    assert "preference-applied" not in answer.headers


async def test_a_repeat_with_a_key_waits_for_the_first_ones_run(gateway: Asking) -> None:
    session = await a_session(gateway)
    key = {"idempotency-key": "k"}
    first = await gateway.save(session, {"content": "likes tea"}, headers=key)
    await finish(gateway, first.json()["workflow_id"])

    again = await gateway.save(session, {"content": "likes tea"}, headers=key | WAIT)

    assert (again.status_code, again.json()["workflow_id"]) == (200, first.json()["workflow_id"])
    assert again.headers["idempotency-replayed"] == "true"


@pytest.fixture
async def small(database_url: str) -> AsyncIterator[Asking]:
    """A gateway with two connections to its database."""
    async with running_gateway(database_url, database_pool_size=2) as asking:
        yield asking


async def test_fifty_who_wait_leave_the_pool_to_others(small: Asking) -> None:
    session = await a_session(small)

    async def wait_for(number: int) -> int:
        answer = await small.save(session, {"content": f"fact {number}"}, headers=WAIT)
        return answer.status_code

    waiting = [asyncio.create_task(wait_for(number)) for number in range(50)]

    async def all_accepted() -> bool:
        return len(await small.rows("SELECT id FROM lorebus.workflow_runs")) == 50

    await small.until(all_accepted)
    assert (await small.load(session)).status_code == 200
    for row in await small.rows("SELECT id FROM lorebus.workflow_runs"):
        await finish(small, str(row["id"]))

    assert await asyncio.gather(*waiting) == [200] * 50


class CountingDatabase(ArrangedDatabase):
    """A database that counts how often it is asked."""

    asked = 0

    @asynccontextmanager
    async def read(self, acts_for: ActsFor | None = None) -> AsyncIterator[Connection]:
        self.asked += 1
        async with super().read(acts_for) as connection:
            yield connection


async def test_five_hundred_who_wait_ask_the_database_as_one(database_url: str) -> None:
    database = CountingDatabase(database_url, pool_size=1)
    changes = RunChanges(database, asyncio.Event())
    try:
        ended = await asyncio.gather(*(changes.ended((uuid4(), uuid4()), seconds=0.5) for _ in range(500)))
    finally:
        await database.dispose()

    assert ended == [False] * 500
    assert database.asked < 30


async def test_a_quiet_run_is_watched_with_heartbeats_and_whoever_leaves_is_waited_for_no_more(
    gateway: Asking,
) -> None:
    session = await a_session(gateway)
    run_id = (await gateway.save(session, {"content": "likes tea"})).json()["workflow_id"]
    changes = RunChanges(gateway.database, asyncio.Event())
    run_status = RunStatus(gateway.database, RunIds([TOKEN_SECRET]))
    asker = Organization(gateway.organization_uuid)
    run = await run_status.snapshot(asker, UUID(run_id), now=datetime.now(UTC))

    watch = RunWaiting(changes, run_status, heartbeat_seconds=0.01).watch(asker, run)
    told = [await anext(watch) for _ in range(3)]
    await watch.aclose()

    assert told[0].startswith(b"event: snapshot\ndata: {")
    assert told[1:] == [b": heartbeat\n\n"] * 2


async def test_a_client_that_goes_away_is_waited_for_no_more(gateway: Asking) -> None:
    session = await a_session(gateway)
    run_id = (await gateway.save(session, {"content": "likes tea"})).json()["workflow_id"]

    async def waited_for(number: int) -> bool:
        told = (await gateway.client.get("/metrics")).text
        return f"lorebus_http_runs_waited_for {number}.0" in told

    async with event_stream(gateway, f"/api/workflows/{run_id}/watch") as stream:
        await stream.next()
        await gateway.until(lambda: waited_for(1))

    await gateway.until(lambda: waited_for(0))


async def test_a_wait_goes_on_while_the_database_is_away(gateway: Asking, database_url: str) -> None:
    session = await a_session(gateway)
    save = asyncio.create_task(gateway.save(session, {"content": "likes tea"}, headers=WAIT))

    async def is_there() -> bool:
        return bool(await gateway.rows("SELECT id FROM lorebus.workflow_runs"))

    await gateway.until(is_there)
    async with database_away(database_url):
        pass
    await finish_the_only_run(gateway)

    assert (await save).status_code == 200


@pytest.mark.parametrize("by", ["key", "token"])
async def test_a_watched_run_is_told_at_each_change_until_it_has_ended(gateway: Asking, by: str) -> None:
    session = await a_session(gateway)
    run_id = (await gateway.save(session, {"content": "likes tea"})).json()["workflow_id"]
    token = session.token if by == "token" else None

    async with event_stream(gateway, f"/api/workflows/{run_id}/watch", token=token) as stream:
        first = await stream.next()
        await finish(gateway, run_id)
        rest = await stream.rest()

    assert (first["workflow_id"], first["state_name"]) == (run_id, "initiated")
    assert [(run["state_name"], run["is_terminal"]) for run in rest] == [("completed", True)]
    assert rest[0]["state_data"]["saved"] == 1
    assert stream.names == ["snapshot", "snapshot"]


async def test_a_run_that_failed_ends_its_watch_with_all_seven_fields(gateway: Asking) -> None:
    run_id, now = uuid4(), datetime.now(UTC)
    async with gateway.database.begin() as connection:
        await runs.fail(
            connection,
            organization_uuid=gateway.organization_uuid,
            run_id=run_id,
            run_type=WorkflowType.MEMORY_SAVE,
            agent_config_uuid=uuid4(),
            session_uuid=None,
            created_at=now,
            failure=Failure("the text", "ValueError", now, State.RUN, "consumer", "run", "dead_lettered"),
        )

    async with event_stream(gateway, f"/api/workflows/{run_id}/watch") as stream:
        (run,) = await stream.rest()

    assert (run["state_name"], run["state_data"]["failure_reason"]) == ("failed", "dead_lettered")


async def test_a_run_without_a_row_is_watched_until_it_has_one(gateway: Asking) -> None:
    made_at = datetime.now(UTC) - timedelta(seconds=1)
    run_id = RunIds([TOKEN_SECRET]).make(gateway.organization_uuid, WorkflowType.MEMORY_SAVE, now=made_at)

    async with event_stream(gateway, f"/api/workflows/{run_id}/watch") as stream:
        first = await stream.next()
        now = datetime.now(UTC)
        finished = FinishedRun(
            organization_uuid=gateway.organization_uuid,
            id=run_id,
            type=WorkflowType.MEMORY_SAVE,
            state_name=State.COMPLETED,
            state_data="{}",
            agent_config_uuid=uuid4(),
            session_uuid=None,
            created_at=now,
            finished_at=now,
            steps=(),
        )
        async with gateway.database.begin() as connection:
            await runs.record_finished(connection, [finished])
        rest = await stream.rest()

    assert first["state_name"] == "initiated"
    assert [run["state_name"] for run in rest] == ["completed"]


async def test_what_is_not_there_cannot_be_watched(gateway: Asking) -> None:
    session, other = await a_session(gateway), await a_session(gateway)
    run_id = (await gateway.save(session, {"content": "likes tea"})).json()["workflow_id"]

    answers = [
        await gateway.client.get(f"/api/workflows/{run_id}/watch"),
        await gateway.client.get(
            f"/api/workflows/{run_id}/watch", headers={"authorization": f"Agent {other.token}"}
        ),
        await gateway.client.get(
            f"/api/workflows/{uuid4()}/watch", headers={"authorization": f"Bearer {gateway.api_key}"}
        ),
    ]

    assert [answer.status_code for answer in answers] == [401, 404, 404]
    assert {answer.headers["content-type"] for answer in answers} == {"application/problem+json"}


async def test_the_head_of_a_watch_is_answered_without_waiting(gateway: Asking) -> None:
    session = await a_session(gateway)
    run_id = (await gateway.save(session, {"content": "likes tea"})).json()["workflow_id"]

    answer = await gateway.client.head(
        f"/api/workflows/{run_id}/watch", headers={"authorization": f"Agent {session.token}"}
    )

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")


async def test_a_stop_ends_waits_and_watches_at_once(gateway: Asking, database_url: str) -> None:
    async with AsyncExitStack() as clients, AsyncExitStack() as servers:
        url = await servers.enter_async_context(serving(database_url, stop_seconds=25.0))
        client = await clients.enter_async_context(httpx.AsyncClient(base_url=url, timeout=30.0))
        stopping = replace(gateway, url=url, client=client)
        session = await a_session(stopping)
        run_id = (await stopping.save(session, {"content": "likes tea"})).json()["workflow_id"]
        waiting = asyncio.create_task(
            stopping.save(session, {"content": "likes cake"}, headers={"prefer": "wait=30"})
        )

        async def both_there() -> bool:
            return len(await gateway.rows("SELECT id FROM lorebus.workflow_runs")) == 2

        await gateway.until(both_there)
        async with event_stream(stopping, f"/api/workflows/{run_id}/watch") as stream:
            await stream.next()
            stopped = asyncio.create_task(servers.aclose())
            rest = await stream.rest()

        assert rest == []
        assert (await waiting).status_code == 202
        await stopped
