"""Listing an organization's runs by type and state (`GET /api/workflows`)."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from lorebus_contracts.workflows import State, WorkflowType
from lorebus_kit.keys import create_key
from tests.support.finished_runs import finish
from tests.support.gateways import Asking

SAVE, PRUNE = WorkflowType.MEMORY_SAVE, WorkflowType.MEMORY_PRUNE
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


async def list_runs(gateway: Asking, **query: object) -> httpx.Response:
    return await gateway.ask("GET", "/api/workflows", params=query)


async def listed(gateway: Asking, **query: object) -> list[str]:
    answer = await list_runs(gateway, **query)
    assert answer.status_code == 200, answer.text
    return [run["workflow_id"] for run in answer.json()["runs"]]


async def a_run(gateway: Asking, kind: WorkflowType, *, minute: int, state: State = State.COMPLETED) -> str:
    run_id = uuid4()
    at = NOON + timedelta(minutes=minute)
    await finish(gateway, kind, run_id, uuid4(), state=state, outputs='{"saved": 1}', created_at=at)
    return str(run_id)


async def test_runs_of_a_type_and_state_are_listed_newest_first(gateway: Asking) -> None:
    first = await a_run(gateway, SAVE, minute=1)
    third = await a_run(gateway, SAVE, minute=3)
    second = await a_run(gateway, SAVE, minute=2)
    await a_run(gateway, SAVE, minute=4, state=State.FAILED)
    await a_run(gateway, PRUNE, minute=5)

    assert await listed(gateway, type="agents.memory-save", state="completed") == [third, second, first]


async def test_a_type_or_a_state_that_is_left_out_stands_for_all(gateway: Asking) -> None:
    saved = await a_run(gateway, SAVE, minute=1)
    failed = await a_run(gateway, SAVE, minute=2, state=State.FAILED)
    pruned = await a_run(gateway, PRUNE, minute=3, state=State.FAILED)

    assert await listed(gateway, type="agents.memory-save") == [failed, saved]
    assert await listed(gateway, state="failed") == [pruned, failed]
    assert await listed(gateway) == [pruned, failed, saved]


async def test_a_list_has_no_more_runs_than_its_limit_and_20_unless_told(gateway: Asking) -> None:
    runs = [await a_run(gateway, (SAVE, PRUNE)[minute % 2], minute=minute) for minute in range(21)]

    assert await listed(gateway, limit=2) == [runs[20], runs[19]]
    assert await listed(gateway) == runs[:0:-1]
    assert len(await listed(gateway, limit=100)) == 21


async def test_a_listed_run_is_what_its_own_path_shows(gateway: Asking) -> None:
    config = await gateway.config()
    run = (await gateway.start("agents.memory-prune", agent_config_uuid=str(config), max_entries=3)).json()

    (shown,) = (await list_runs(gateway, type="agents.memory-prune", state="initiated")).json()["runs"]

    assert shown == (await gateway.ask("GET", f"/api/workflows/{run['workflow_id']}")).json()
    assert shown["state_data"]["max_entries"] == 3


async def test_runs_of_another_organization_are_not_listed(gateway: Asking) -> None:
    await a_run(gateway, SAVE, minute=1)
    other = await create_key(gateway.database, UUID(int=7), name="other")

    answer = await gateway.ask("GET", "/api/workflows", key=other)

    assert answer.json() == {"runs": []}


async def test_a_session_token_lists_nothing(gateway: Asking) -> None:
    session = await gateway.session(await gateway.config())

    assert (await gateway.ask("GET", "/api/workflows", token=session.token)).status_code == 401


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        (
            {"type": "agents.memory-load"},
            {
                "path": "type",
                "problem": "has no list of runs; should be one of agents.memory-save, agents.memory-distill,"
                " agents.memory-prune",
            },
        ),
        (
            {"state": "done"},
            {"path": "state", "problem": "should be 'initiated', 'run', 'completed' or 'failed'"},
        ),
        ({"limit": 101}, {"path": "limit", "problem": "should be a whole number from 1 to 100"}),
        ({"limit": 0}, {"path": "limit", "problem": "should be a whole number from 1 to 100"}),
        ({"organization_uuid": str(uuid4())}, {"path": "organization_uuid", "problem": "is not a known key"}),
    ],
)
async def test_a_query_that_is_not_valid_is_refused_with_its_fault(
    gateway: Asking, query: dict[str, object], fault: dict[str, Any]
) -> None:
    answer = await list_runs(gateway, **query)

    assert (answer.status_code, answer.json()["faults"]) == (422, [fault])
