"""Workflow types, starting runs, and their status (SPEC.md sections 2 and 8)."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4, uuid5

import pytest
from jsonschema import Draft202012Validator

from lorebus_contracts.workflows import State, WorkflowType
from lorebus_kit.run_ids import RunIds
from lorebus_store import recalls, runs, sessions
from lorebus_store.recalls import EntryColumns, HandedOut, RecordedRecall
from lorebus_store.run_rows import Failure, FinishedRun, Step
from tests.support.gateways import TOKEN_SECRET, Asking

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
BOB = {"kind": "end_user", "ref": "bob"}


async def accepted_event(gateway: Asking) -> dict[str, Any]:
    (row,) = await gateway.rows("SELECT payload FROM lorebus.outbox")
    event: dict[str, Any] = json.loads(row["payload"])
    return event


async def nothing_is_stored(gateway: Asking) -> bool:
    return not await gateway.rows("SELECT id FROM lorebus.outbox") and not await gateway.rows(
        "SELECT id FROM lorebus.workflow_runs"
    )


@pytest.mark.parametrize("kind", ["agents.memory-load", "agents.memory-save", "agents.memory-prune"])
async def test_a_run_was_made_when_its_start_said(gateway: Asking, kind: str) -> None:
    config = await gateway.config()
    session = await gateway.session(config, {"kind": "end_user", "ref": "bob"})
    data: dict[str, object] = {"agent_config_uuid": str(config)}
    if kind != "agents.memory-prune":
        data["session_uuid"] = str(session.uuid)
    if kind == "agents.memory-save":
        data["entries"] = [{"text": "likes tea"}]

    started = (await gateway.start(kind, **data)).json()

    told = (await gateway.ask("GET", f"/api/workflows/{started['workflow_id']}")).json()
    assert told["created_at"] == started["created_at"]


async def test_the_types_are_listed_for_anybody(gateway: Asking) -> None:
    answer = await gateway.client.get("/api/workflows/types")

    assert answer.status_code == 200
    assert [told["name"] for told in answer.json()["types"]] == [
        "agents.memory-load",
        "agents.memory-distill",
        "agents.memory-save",
        "agents.memory-prune",
    ]
    assert {(told["kind"], told["library"], told["version"]) for told in answer.json()["types"]} == {
        ("linear", "App-agents", "1.0")
    }


@pytest.mark.parametrize("kind", list(WorkflowType))
async def test_a_types_schema_tells_what_validates_its_inputs(gateway: Asking, kind: WorkflowType) -> None:
    answer = await gateway.client.get(f"/api/workflows/types/{kind}/schema")

    assert answer.status_code == 200
    told = answer.json()
    assert told["name"] == kind
    Draft202012Validator.check_schema(told["input"])
    Draft202012Validator.check_schema(told["output"])
    assert {"organization_uuid", "agent_config_uuid"} <= set(told["input"]["required"])
    assert [state["name"] for state in told["states"]] == ["initiated", "run", "completed", "failed"]
    assert [step["name"] for step in told["transitions"]] == ["run", "complete", "fail"]


async def test_an_unknown_type_has_no_schema(gateway: Asking) -> None:
    assert (await gateway.client.get("/api/workflows/types/agents.memory-eat/schema")).status_code == 404


async def test_a_started_save_is_for_the_sessions_own_caller(gateway: Asking) -> None:
    config = await gateway.config()
    session = await gateway.session(config, BOB)

    answer = await gateway.start(
        "agents.memory-save",
        agent_config_uuid=str(config),
        session_uuid=str(session.uuid),
        entries=[{"text": "likes tea"}],
    )

    assert answer.status_code == 202
    run = answer.json()
    assert (run["workflow_type"], run["state_name"], run["is_terminal"]) == (
        "agents.memory-save",
        "initiated",
        False,
    )
    assert run["state_data"] == {
        "organization_uuid": str(gateway.organization_uuid),
        "agent_config_uuid": str(config),
        "session_uuid": str(session.uuid),
    }
    event = await accepted_event(gateway)
    assert (event["event_id"], event["principal_ref"], event["origin"]) == (
        run["workflow_id"],
        "bob",
        "workflow",
    )
    assert event["caller"] == BOB


@pytest.mark.parametrize(
    ("caller", "named", "status", "principal"),
    [
        ({"kind": "none"}, "bob", 202, "bob"),
        ({"kind": "none"}, None, 202, None),
        (BOB, "bob", 202, "bob"),
        (BOB, "ann", 403, None),
        (BOB, "Bob", 403, None),
        ({"kind": "actor", "ref": "ann"}, "bob", 403, None),
        ({"kind": "end_user"}, "bob", 403, None),
        (BOB, "", 422, None),
        (BOB, "  ", 422, None),
    ],
)
async def test_a_started_save_may_not_name_somebody_else_than_the_session_is_for(
    gateway: Asking, caller: dict[str, str], named: str | None, status: int, principal: str | None
) -> None:
    config = await gateway.config()
    session = await gateway.session(config, caller)

    answer = await gateway.start(
        "agents.memory-save",
        agent_config_uuid=str(config),
        session_uuid=str(session.uuid),
        entries=[{"text": "likes tea"}],
        principal_ref=named,
    )

    assert answer.status_code == status
    if status == 202:
        assert (await accepted_event(gateway))["principal_ref"] == principal
    else:
        assert await nothing_is_stored(gateway)


async def test_a_started_load_is_answered_with_its_result(gateway: Asking) -> None:
    config = await gateway.config()
    await gateway.remember(config, "likes tea", principal="bob")
    await gateway.remember(config, "shared")
    session = await gateway.session(config, BOB)

    answer = await gateway.start(
        "agents.memory-load",
        agent_config_uuid=str(config),
        session_uuid=str(session.uuid),
        strategy="pack",
        top_k=5,
        cue="tea",
    )

    assert answer.status_code == 200
    run = answer.json()
    assert (run["state_name"], run["is_terminal"]) == ("completed", True)
    data = run["state_data"]
    assert data["memory"] == "## Recalled memory (ranked for this task)\n\nlikes tea"
    assert (data["count"], data["strategy"], data["top_k"], data["cue"]) == (1, "pack", 5, "tea")
    assert data["session_uuid"] == str(session.uuid)
    assert data["recall_id"] == run["workflow_id"]
    status = (await gateway.ask("GET", f"/api/workflows/{run['workflow_id']}")).json()
    assert (status["state_name"], status["workflow_type"]) == ("completed", "agents.memory-load")


async def test_a_started_load_without_memory_has_completed_and_tells_why(gateway: Asking) -> None:
    config = await gateway.config()
    session = await gateway.session(config, {"kind": "end_user"})

    answer = await gateway.start(
        "agents.memory-load", agent_config_uuid=str(config), session_uuid=str(session.uuid)
    )

    run = answer.json()
    assert (run["state_name"], run["state_data"]["skipped_reason"]) == ("completed", "unidentified_end_user")
    assert (run["state_data"]["memory"], run["state_data"]["count"]) == ("", 0)


async def test_a_started_prune_is_accepted(gateway: Asking) -> None:
    config = await gateway.config()

    answer = await gateway.start("agents.memory-prune", agent_config_uuid=str(config), max_entries=7)

    assert answer.status_code == 202
    assert answer.json()["state_data"]["max_entries"] == 7
    assert (await accepted_event(gateway))["max_entries"] == 7


async def test_a_distill_of_a_session_that_has_not_ended_is_completed_with_the_reason(
    gateway: Asking,
) -> None:
    config = await gateway.config()
    session = await gateway.session(config, BOB)

    answer = await gateway.start(
        "agents.memory-distill", agent_config_uuid=str(config), session_uuid=str(session.uuid)
    )

    assert answer.status_code == 202
    run = answer.json()
    assert (run["state_name"], run["state_data"]["skipped_reason"]) == ("completed", "not_terminal")
    assert run["workflow_id"] != str(uuid5(session.uuid, "distill-run:v1"))
    history = (await gateway.ask("GET", f"/api/workflows/{run['workflow_id']}/history")).json()["history"]
    assert [step["state_name"] for step in history] == ["initiated", "run", "completed"]


async def test_a_distill_of_a_session_that_ended_is_the_sessions_one_distill(gateway: Asking) -> None:
    config = await gateway.config()
    session = await gateway.session(config, BOB)
    ended = await gateway.ask(
        "POST", f"/api/app/agents/sessions/{session.uuid}/end", json={"outcome": "success", "step_count": 2}
    )

    answer = await gateway.start(
        "agents.memory-distill", agent_config_uuid=str(config), session_uuid=str(session.uuid)
    )

    assert (answer.status_code, answer.json()["state_name"]) == (202, "initiated")
    assert answer.json()["workflow_id"] == ended.json()["workflow_id"]
    assert len(await gateway.rows("SELECT id FROM lorebus.workflow_runs")) == 1


async def test_a_distill_whose_session_ended_on_the_bus_is_initiated_before_its_run_is_there(
    gateway: Asking,
) -> None:
    config = await gateway.config()
    session = await gateway.session(config, BOB)
    async with gateway.database.begin() as connection:
        row = sessions.SessionOutcome(
            gateway.organization_uuid, session.uuid, config, "success", NOW, uuid4()
        )
        await sessions.apply_outcomes(connection, [row])

    answer = await gateway.start(
        "agents.memory-distill", agent_config_uuid=str(config), session_uuid=str(session.uuid)
    )

    assert answer.json()["state_name"] == "initiated"
    assert answer.json()["workflow_id"] == str(uuid5(session.uuid, "distill-run:v1"))
    assert await nothing_is_stored(gateway)


@pytest.mark.parametrize("kind", list(WorkflowType))
async def test_a_run_for_another_organization_is_refused(gateway: Asking, kind: WorkflowType) -> None:
    config = await gateway.config()
    session = await gateway.session(config)
    data = {"organization_uuid": str(uuid4()), "agent_config_uuid": str(config)}
    if kind is not WorkflowType.MEMORY_PRUNE:
        data["session_uuid"] = str(session.uuid)
    more = {"entries": [{"text": "x"}]} if kind is WorkflowType.MEMORY_SAVE else {}

    answer = await gateway.start(kind, **data, **more)

    assert (answer.status_code, answer.json()["type"]) == (403, "urn:lorebus:problem:forbidden")
    assert await nothing_is_stored(gateway)


@pytest.mark.parametrize("kind", ["agents.memory-load", "agents.memory-save", "agents.memory-distill"])
async def test_a_run_for_a_session_that_is_not_known_or_not_of_the_config_is_not_found(
    gateway: Asking, kind: str
) -> None:
    config, other = await gateway.config(), await gateway.config()
    session = await gateway.session(config)
    more = {"entries": [{"text": "x"}]} if kind == "agents.memory-save" else {}

    unknown = await gateway.start(kind, agent_config_uuid=str(config), session_uuid=str(uuid4()), **more)
    astray = await gateway.start(kind, agent_config_uuid=str(other), session_uuid=str(session.uuid), **more)

    assert (unknown.status_code, astray.status_code) == (404, 404)
    assert await nothing_is_stored(gateway)


async def test_a_prune_of_a_config_that_is_not_known_is_not_found(gateway: Asking) -> None:
    assert (await gateway.start("agents.memory-prune", agent_config_uuid=str(uuid4()))).status_code == 404


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"workflow_type": "agents.memory-eat", "initial_data": {}}, "workflow_type"),
        ({"workflow_type": "agents.memory-load"}, "initial_data"),
        ({"workflow_type": "agents.memory-load", "initial_data": []}, "initial_data"),
        ({"workflow_type": "agents.memory-prune", "initial_data": {}}, "initial_data.organization_uuid"),
        (
            {
                "workflow_type": "agents.memory-prune",
                "initial_data": {
                    "organization_uuid": str(uuid4()),
                    "agent_config_uuid": str(uuid4()),
                    "keep": 3,
                },
            },
            "initial_data.keep",
        ),
        (
            {
                "workflow_type": "agents.memory-save",
                "initial_data": {
                    "organization_uuid": str(uuid4()),
                    "agent_config_uuid": str(uuid4()),
                    "session_uuid": str(uuid4()),
                    "entries": [{"text": "a", "importance": 2}],
                },
            },
            "initial_data.entries.0.importance",
        ),
        (
            {"workflow_type": "agents.memory-load", "initial_data": {}, "organization_uuid": "x"},
            "organization_uuid",
        ),
    ],
)
async def test_a_start_that_is_not_what_it_should_be_is_refused(
    gateway: Asking, body: dict[str, object], path: str
) -> None:
    answer = await gateway.ask("POST", "/api/workflows/start", json=body)

    assert answer.status_code == 422
    assert path in [fault["path"] for fault in answer.json()["faults"]]


@pytest.mark.parametrize("importance", ["NaN", "1e999"])
async def test_a_number_that_is_none_is_refused_within_the_inputs_too(
    gateway: Asking, importance: str
) -> None:
    raw = f'{{"workflow_type": "agents.memory-save", "initial_data": {{"entries": [{{"importance": {importance}}}]}}}}'

    answer = await gateway.ask("POST", "/api/workflows/start", content=raw.encode())

    assert answer.status_code == 422


async def test_an_accepted_save_is_initiated_for_the_session_and_for_its_organization(
    gateway: Asking,
) -> None:
    config = await gateway.config()
    session = await gateway.session(config, BOB)
    other = await gateway.session(config, BOB)
    run_id = (await gateway.save(session, {"content": "x"})).json()["workflow_id"]
    path = f"/api/workflows/{run_id}"

    by_key = await gateway.ask("GET", path)
    by_token = await gateway.ask("GET", path, token=session.token)
    by_another = await gateway.ask("GET", path, token=other.token)

    assert by_key.json() == by_token.json()
    run = by_key.json()
    assert (run["workflow_id"], run["state_name"], run["is_terminal"]) == (run_id, "initiated", False)
    assert run["state_data"]["session_uuid"] == str(session.uuid)
    assert by_another.status_code == 404
    history = (await gateway.ask("GET", f"{path}/history", token=session.token)).json()
    assert [step["state_name"] for step in history["history"]] == ["initiated"]


async def test_a_run_without_a_row_is_initiated_if_its_id_was_given_out_to_this_organization(
    gateway: Asking,
) -> None:
    ids = RunIds([TOKEN_SECRET])
    now = datetime.now(UTC)
    mine = ids.make(gateway.organization_uuid, WorkflowType.MEMORY_SAVE, now=now)
    foreign = ids.make(uuid4(), WorkflowType.MEMORY_SAVE, now=now)
    made_up = UUID(int=mine.int ^ 1)

    answers = [await gateway.ask("GET", f"/api/workflows/{run_id}") for run_id in (mine, foreign, made_up)]

    assert [answer.status_code for answer in answers] == [200, 404, 404]
    run = answers[0].json()
    assert (run["workflow_type"], run["state_name"]) == ("agents.memory-save", "initiated")
    assert abs(datetime.fromisoformat(run["created_at"]) - now) < timedelta(milliseconds=2)


async def test_a_session_does_not_see_a_prune_of_its_config(gateway: Asking) -> None:
    config = await gateway.config()
    session = await gateway.session(config)
    run = (await gateway.start("agents.memory-prune", agent_config_uuid=str(config))).json()
    rowless = RunIds([TOKEN_SECRET]).make(
        gateway.organization_uuid, WorkflowType.MEMORY_PRUNE, now=datetime.now(UTC)
    )

    for run_id in (run["workflow_id"], rowless):
        assert (await gateway.ask("GET", f"/api/workflows/{run_id}", token=session.token)).status_code == 404
        assert (await gateway.ask("GET", f"/api/workflows/{run_id}")).status_code == 200


async def test_a_finished_run_tells_its_outputs_beside_its_inputs(gateway: Asking) -> None:
    config, session, run_id = uuid4(), uuid4(), uuid4()
    run = FinishedRun(
        organization_uuid=gateway.organization_uuid,
        id=run_id,
        type=WorkflowType.MEMORY_SAVE,
        state_name=State.COMPLETED,
        state_data='{"saved": 1, "skipped": 0, "reinforced": 2}',
        agent_config_uuid=config,
        session_uuid=session,
        created_at=NOW,
        finished_at=NOW + timedelta(seconds=2),
        steps=(Step(State.RUN, NOW), Step(State.COMPLETED, NOW + timedelta(seconds=2), '{"rows": 1}')),
    )
    async with gateway.database.begin() as connection:
        await runs.record_finished(connection, [run])

    told = (await gateway.ask("GET", f"/api/workflows/{run_id}")).json()
    history = (await gateway.ask("GET", f"/api/workflows/{run_id}/history")).json()

    assert told == {
        "workflow_id": str(run_id),
        "workflow_type": "agents.memory-save",
        "state_name": "completed",
        "is_terminal": True,
        "state_data": {
            "organization_uuid": str(gateway.organization_uuid),
            "agent_config_uuid": str(config),
            "session_uuid": str(session),
            "saved": 1,
            "skipped": 0,
            "reinforced": 2,
        },
        "created_at": "2026-05-01T12:00:00Z",
        "updated_at": "2026-05-01T12:00:02Z",
    }
    assert history["history"] == [
        {"state_name": "initiated", "at": "2026-05-01T12:00:00Z", "data": None},
        {"state_name": "run", "at": "2026-05-01T12:00:00Z", "data": None},
        {"state_name": "completed", "at": "2026-05-01T12:00:02Z", "data": {"rows": 1}},
    ]


async def test_a_failed_run_tells_all_seven_fields(gateway: Asking) -> None:
    run_id = uuid4()
    failure = Failure("the text", "ValueError", NOW, State.RUN, "consumer", "run", "dead_lettered")
    async with gateway.database.begin() as connection:
        await runs.fail(
            connection,
            organization_uuid=gateway.organization_uuid,
            run_id=run_id,
            run_type=WorkflowType.MEMORY_SAVE,
            agent_config_uuid=uuid4(),
            session_uuid=None,
            created_at=NOW,
            failure=failure,
        )

    told = (await gateway.ask("GET", f"/api/workflows/{run_id}")).json()

    assert (told["state_name"], told["is_terminal"]) == ("failed", True)
    assert {
        name: told["state_data"][name]
        for name in (
            "error",
            "error_type",
            "failed_at",
            "failed_at_state",
            "failed_layer",
            "failed_step",
            "failure_reason",
        )
    } == {
        "error": "the text",
        "error_type": "ValueError",
        "failed_at": "2026-05-01T12:00:00+00:00",
        "failed_at_state": "run",
        "failed_layer": "consumer",
        "failed_step": "run",
        "failure_reason": "dead_lettered",
    }


PASSED_OVER: Final = (
    '[{"memory_id": "0199f1a2-6e00-7a00-8000-000000000006", "reason": "over_budget", "score": 0.85,'
    ' "relevance": 1.0, "importance": 0.4, "recency": 1.0}]'
)
LEFT_OUT: Final = (
    '{"memory_ids": "AZnxom4AegCAAAAAAAAABg==", "reasons": "o",'
    ' "parts": "MzMzMzMz6z8AAAAAAADwP5qZmZmZmdk/AAAAAAAA8D8="}'
)


async def a_recorded_recall(
    gateway: Asking, *, gone: bool = False, passed_over: str = PASSED_OVER
) -> RecordedRecall:
    config = await gateway.config()
    session = await gateway.session(config, BOB)
    first, second = await gateway.remember(config, "likes tea", "likes aisles", principal="bob")
    row = RecordedRecall(
        organization_uuid=gateway.organization_uuid,
        recall_id=uuid4(),
        pack_id=uuid4(),
        session_uuid=session.uuid,
        agent_config_uuid=config,
        caller_kind="end_user",
        principal_ref="bob",
        requested_strategy="pack",
        strategy="pack",
        cue="tea",
        top_k=2,
        budget_used_chars=67,
        occurred_at=NOW,
        entries=EntryColumns.of(
            (
                HandedOut(first, 1, 0.5, score=0.9, relevance=1.0, recency=1.0),
                HandedOut(uuid4() if gone else second, 2, 0.5, score=0.3, relevance=0.0, recency=1.0),
            )
        ),
        passed_over=passed_over,
    )
    async with gateway.database.begin() as connection:
        await recalls.record(connection, [row])
    return row


async def test_a_recorded_load_is_a_completed_run_with_its_memory(gateway: Asking) -> None:
    recall = await a_recorded_recall(gateway)

    told = (await gateway.ask("GET", f"/api/workflows/{recall.recall_id}")).json()
    history = (await gateway.ask("GET", f"/api/workflows/{recall.recall_id}/history")).json()
    by_pack = await gateway.ask("GET", f"/api/workflows/{recall.pack_id}")

    assert (told["workflow_type"], told["state_name"]) == ("agents.memory-load", "completed")
    assert told["state_data"]["memory"] == (
        "## Recalled memory (ranked for this task)\n\nlikes tea\n---\nlikes aisles"
    )
    assert (told["state_data"]["count"], told["state_data"]["pack_id"]) == (2, str(recall.pack_id))
    assert [step["state_name"] for step in history["history"]] == ["initiated", "run", "completed"]
    assert by_pack.status_code == 404


async def test_a_load_whose_entry_is_gone_no_longer_tells_its_memory(gateway: Asking) -> None:
    recall = await a_recorded_recall(gateway, gone=True)

    told = (await gateway.ask("GET", f"/api/workflows/{recall.recall_id}")).json()

    assert told["state_data"]["count"] == 2
    assert "memory" not in told["state_data"]


@pytest.mark.parametrize("by", ["recall_id", "pack_id"])
async def test_a_receipt_shows_what_was_handed_out_and_left_out(gateway: Asking, by: str) -> None:
    recall = await a_recorded_recall(gateway)

    answer = await gateway.ask("GET", f"/api/app/agents/recalls/{getattr(recall, by)}")

    assert answer.status_code == 200
    receipt = answer.json()
    assert (receipt["recall_id"], receipt["pack_id"]) == (str(recall.recall_id), str(recall.pack_id))
    assert (receipt["caller"], receipt["cue"], receipt["label"]) == (BOB, "tea", None)
    assert [(e["rank"], e["text"], e["score"], e["relevance"]) for e in receipt["entries"]] == [
        (1, "likes tea", 0.9, 1.0),
        (2, "likes aisles", 0.3, 0.0),
    ]
    assert [left["reason"] for left in receipt["passed_over"]] == ["over_budget"]


@pytest.mark.parametrize("passed_over", [PASSED_OVER, LEFT_OUT])
async def test_a_receipt_tells_what_was_left_out_however_it_was_recorded(
    gateway: Asking, passed_over: str
) -> None:
    recall = await a_recorded_recall(gateway, passed_over=passed_over)

    receipt = (await gateway.ask("GET", f"/api/app/agents/recalls/{recall.recall_id}")).json()

    assert receipt["passed_over"] == [
        {
            "memory_id": "0199f1a2-6e00-7a00-8000-000000000006",
            "reason": "over_budget",
            "score": 0.85,
            "relevance": 1.0,
            "importance": 0.4,
            "recency": 1.0,
        }
    ]


async def test_a_receipt_tells_the_label_and_a_rating_wins_over_the_outcome(gateway: Asking) -> None:
    recall = await a_recorded_recall(gateway)
    path = f"/api/app/agents/recalls/{recall.recall_id}"
    mine = (gateway.organization_uuid, recall.session_uuid, recall.agent_config_uuid)

    async with gateway.database.begin() as connection:
        await sessions.apply_outcomes(connection, [sessions.SessionOutcome(*mine, "failed", NOW, uuid4())])
    ended = (await gateway.ask("GET", path)).json()["label"]
    async with gateway.database.begin() as connection:
        await sessions.apply_ratings(connection, [sessions.SessionRating(*mine, 0.9, NOW, uuid4())])
    rated = (await gateway.ask("GET", path)).json()["label"]

    assert (ended, rated) == ("failed", "success")
