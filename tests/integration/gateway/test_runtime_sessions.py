"""Sessions of runtimes that do not speak Kafka (SPEC.md section 8): registered, ended, rated over HTTP."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4, uuid5

import pytest

from lorebus_store import sessions
from tests.support.gateways import Asking

SESSIONS = "/api/app/agents/sessions"
BOB = {"kind": "end_user", "ref": "bob"}


async def events(gateway: Asking) -> list[dict[str, Any]]:
    rows = await gateway.rows("SELECT payload FROM lorebus.outbox ORDER BY id")
    return [json.loads(row["payload"]) for row in rows]


async def test_a_registered_session_has_a_token_and_is_known(gateway: Asking) -> None:
    config = await gateway.config()

    session = await gateway.session(config, BOB, task="mend the bac\0kup")

    (row,) = await gateway.rows("SELECT * FROM lorebus.sessions")
    assert (row["session_uuid"], row["agent_config_uuid"]) == (session.uuid, config)
    assert (row["caller_kind"], row["principal_ref"], row["task"]) == ("end_user", "bob", "mend the backup")
    assert session.answer["recall"] is None
    expires_in = datetime.fromisoformat(session.answer["expires_at"]) - datetime.now(UTC)
    assert timedelta(hours=23, minutes=59) < expires_in <= timedelta(hours=24)


async def test_a_runtime_may_name_its_session_and_register_it_again(gateway: Asking) -> None:
    config = await gateway.config()
    mine = uuid4()

    first = await gateway.session(config, BOB, session_uuid=str(mine))
    again = await gateway.session(config, BOB, session_uuid=str(mine), task="another")

    assert first.uuid == again.uuid == mine
    assert len(await gateway.rows("SELECT 1 FROM lorebus.sessions")) == 1


async def test_a_session_that_is_registered_keeps_its_caller_and_config(gateway: Asking) -> None:
    config, other = await gateway.config(), await gateway.config()
    session = await gateway.session(config, BOB)
    body = {"session_uuid": str(session.uuid), "agent_config_uuid": str(config), "caller": BOB}

    for changes in (
        {"caller": {"kind": "end_user", "ref": "ann"}},
        {"caller": {"kind": "end_user", "ref": "Bob"}},
        {"caller": {"kind": "actor", "ref": "bob"}},
        {"caller": {"kind": "none"}},
        {"agent_config_uuid": str(other)},
    ):
        answer = await gateway.ask("POST", SESSIONS, json=body | changes)
        assert answer.status_code == 409, changes
        assert answer.json()["type"] == "urn:lorebus:problem:conflict"

    (row,) = await gateway.rows("SELECT * FROM lorebus.sessions")
    assert (row["principal_ref"], row["agent_config_uuid"]) == ("bob", config)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"caller": {"kind": "actor"}}, "caller"),
        ({"caller": {"kind": "actor", "ref": "  "}}, "caller"),
        ({"caller": {"kind": "none", "ref": "bob"}}, "caller"),
        ({"caller": {"kind": "end_user", "ref": "a\0b"}}, "caller.ref"),
        ({"caller": {"kind": "end_user", "ref": "b" * 513}}, "caller.ref"),
        ({"caller": {"kind": "end_user", "ref": 7}}, "caller.ref"),
        ({"caller": {"kind": "root"}}, "caller.kind"),
        ({"caller": {"kind": "none", "organization": "x"}}, "caller.organization"),
        ({"caller": "none"}, "caller"),
        ({"caller": None}, "caller"),
        ({"task": "x" * 100_001}, "task"),
        ({"load": "yes"}, "load"),
        ({"session_uuid": "mine"}, "session_uuid"),
        ({"organization_uuid": str(uuid4())}, "organization_uuid"),
    ],
)
async def test_a_registration_that_is_not_what_it_should_be_is_refused(
    gateway: Asking, body: dict[str, object], path: str
) -> None:
    config = await gateway.config()
    sound = {"agent_config_uuid": str(config), "caller": BOB}

    answer = await gateway.ask("POST", SESSIONS, json=sound | body)

    assert answer.status_code == 422
    assert [fault["path"] for fault in answer.json()["faults"]] == [path]
    assert not await gateway.rows("SELECT 1 FROM lorebus.sessions")


async def test_a_half_surrogate_in_a_principal_is_refused_and_not_altered(gateway: Asking) -> None:
    config = await gateway.config()
    raw = f'{{"agent_config_uuid": "{config}", "caller": {{"kind": "end_user", "ref": "b\\ud83d"}}}}'

    answer = await gateway.ask("POST", SESSIONS, content=raw.encode())

    assert answer.status_code == 422
    assert answer.json()["faults"][0]["path"] == "caller.ref"


async def test_the_end_of_a_session_is_accepted_with_its_registered_caller_and_its_distill(
    gateway: Asking,
) -> None:
    config = await gateway.config()
    session = await gateway.session(config, BOB, task="mend the backup")
    call = {"tool": "shell", "input": {"cmd": "ls\0"}, "output": "disk\0full", "is_error": True}
    body = {"outcome": "failed", "step_count": 3, "trace": [call]}

    answer = await gateway.ask("POST", f"{SESSIONS}/{session.uuid}/end", json=body)

    assert answer.status_code == 202
    (event,) = await events(gateway)
    assert event["event_id"] == answer.json()["event_id"]
    assert event["agent_config_uuid"] == str(config)
    assert (event["caller"], event["outcome"], event["step_count"]) == (BOB, "failed", 3)
    assert event["task"] == "mend the backup"
    assert event["trace"] == [call | {"input": {"cmd": "ls"}, "output": "diskfull"}]
    run_id = uuid5(session.uuid, "distill-run:v1")
    assert answer.json()["workflow_id"] == str(run_id)
    (run,) = await gateway.rows("SELECT * FROM lorebus.workflow_runs")
    assert (run["id"], run["type"], run["state_name"]) == (run_id, "agents.memory-distill", "initiated")
    assert json.loads(run["pending_input"])["event_id"] == event["event_id"]


async def test_an_end_that_is_sent_again_has_one_run_and_the_clients_own_event_id(gateway: Asking) -> None:
    session = await gateway.session(await gateway.config(), BOB)
    mine = str(uuid4())
    body = {
        "outcome": "success",
        "step_count": 2,
        "event_id": mine,
        "occurred_at": "2026-05-01T12:00:00+02:00",
    }

    answers = [await gateway.ask("POST", f"{SESSIONS}/{session.uuid}/end", json=body) for _ in range(2)]

    assert [answer.json()["event_id"] for answer in answers] == [mine, mine]
    assert {event["event_id"] for event in await events(gateway)} == {mine}
    assert {event["occurred_at"] for event in await events(gateway)} == {"2026-05-01T10:00:00Z"}
    assert len(await gateway.rows("SELECT id FROM lorebus.workflow_runs")) == 1


async def test_a_rating_is_accepted_and_starts_no_run(gateway: Asking) -> None:
    session = await gateway.session(await gateway.config(), BOB)

    answer = await gateway.ask("POST", f"{SESSIONS}/{session.uuid}/rating", json={"quality_score": 0.9})

    assert (answer.status_code, answer.json()["workflow_id"]) == (202, None)
    (event,) = await events(gateway)
    assert (event["session_uuid"], event["quality_score"]) == (str(session.uuid), 0.9)
    assert not await gateway.rows("SELECT id FROM lorebus.workflow_runs")


async def test_a_session_that_was_learnt_from_an_event_may_end_over_http(gateway: Asking) -> None:
    config = await gateway.config()
    learnt = UUID("00000000-0000-4000-8000-0000000000e1")
    async with gateway.database.begin() as connection:
        row = sessions.LearntSession(gateway.organization_uuid, learnt, config, "actor", "ann", "a task")
        await sessions.learn(connection, [row])

    answer = await gateway.ask(
        "POST", f"{SESSIONS}/{learnt}/end", json={"outcome": "cancelled", "step_count": 0, "task": "told"}
    )

    assert answer.status_code == 202
    (event,) = await events(gateway)
    assert (event["caller"], event["task"]) == ({"kind": "actor", "ref": "ann"}, "told")


@pytest.mark.parametrize(
    ("route", "body", "path"),
    [
        ("end", {"step_count": 2}, "outcome"),
        ("end", {"outcome": "", "step_count": 2}, "outcome"),
        ("end", {"outcome": "x" * 65, "step_count": 2}, "outcome"),
        ("end", {"outcome": "success"}, "step_count"),
        ("end", {"outcome": "success", "step_count": -1}, "step_count"),
        ("end", {"outcome": "success", "step_count": 2.5}, "step_count"),
        ("end", {"outcome": "success", "step_count": 2, "caller": BOB}, "caller"),
        ("end", {"outcome": "success", "step_count": 2, "occurred_at": "yesterday"}, "occurred_at"),
        ("end", {"outcome": "success", "step_count": 2, "occurred_at": 1_700_000_000}, "occurred_at"),
        (
            "end",
            {"outcome": "success", "step_count": 2, "occurred_at": "9999-12-31T23:59:59-12:00"},
            "occurred_at",
        ),
        ("end", {"outcome": "success", "step_count": 2, "event_id": "mine"}, "event_id"),
        ("end", {"outcome": "success", "step_count": 2, "trace": [{"output": "x"}]}, "trace.0.tool"),
        ("rating", {}, "quality_score"),
        ("rating", {"quality_score": 1.1}, "quality_score"),
        ("rating", {"quality_score": "1"}, "quality_score"),
        ("rating", {"quality_score": True}, "quality_score"),
        ("rating", {"quality_score": 1.0, "label": "success"}, "label"),
    ],
)
async def test_an_end_or_rating_that_is_not_what_it_should_be_is_refused(
    gateway: Asking, route: str, body: dict[str, object], path: str
) -> None:
    session = await gateway.session(await gateway.config())

    answer = await gateway.ask("POST", f"{SESSIONS}/{session.uuid}/{route}", json=body)

    assert answer.status_code == 422
    assert [fault["path"] for fault in answer.json()["faults"]] == [path]
    assert await events(gateway) == []
