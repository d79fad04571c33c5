"""POST memory-load (SPEC.md sections 5 and 6): the right entries, at once, and nothing is written on the path."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from lorebus_contracts.handed_out import HandedOutColumns
from lorebus_contracts.left_out import LeftOut
from tests.support.gateways import Asking, running_gateway

NOW = datetime.now(UTC)
BOB = {"kind": "end_user", "ref": "bob"}


async def recorded(gateway: Asking, count: int = 1) -> list[dict[str, Any]]:
    """The recalls that were accepted for recording, once there are that many."""
    found: list[dict[str, Any]] = []

    async def all_there() -> bool:
        rows = await gateway.rows(
            "SELECT payload FROM lorebus.outbox WHERE topic = 'recall.recorded' ORDER BY id"
        )
        found[:] = [json.loads(row["payload"]) for row in rows]
        return len(found) >= count

    await gateway.until(all_there)
    return found


async def test_last_k_hands_out_the_newest_joined_by_a_line(gateway: Asking) -> None:
    config = await gateway.config(memory_top_k=2)
    await gateway.remember(config, "first", "second", "third", principal="bob")
    session = await gateway.session(config, BOB)

    answer = await gateway.load(session)

    assert answer.status_code == 200
    told = answer.json()
    assert told["memory"] == "third\n---\nsecond"
    assert (told["count"], told["strategy"], told["requested_strategy"]) == (2, "last_k", "last_k")
    assert told["pack_id"] is None
    assert told["skipped_reason"] is None
    assert UUID(told["recall_id"]).version == 8


async def test_importance_hands_out_the_most_important_first_then_the_newest(gateway: Asking) -> None:
    config = await gateway.config(memory_strategy="importance")
    await gateway.remember(config, "low", importance=0.2)
    await gateway.remember(config, "high, older", importance=0.9, at=NOW - timedelta(days=2))
    await gateway.remember(config, "high, newer", importance=0.9, at=NOW - timedelta(days=1))
    session = await gateway.session(config)

    answer = await gateway.load(session)

    assert answer.json()["memory"] == "high, newer\n---\nhigh, older\n---\nlow"


async def test_full_hands_out_everything_whatever_top_k_says(gateway: Asking) -> None:
    config = await gateway.config(memory_strategy="full", memory_top_k=1)
    await gateway.remember(config, "a", "b", "c")
    session = await gateway.session(config)

    answer = await gateway.load(session)

    assert answer.json()["memory"] == "c\n---\nb\n---\na"


async def test_a_pack_is_ranked_for_the_cue_under_its_heading(gateway: Asking) -> None:
    config = await gateway.config()
    await gateway.remember(
        config, "the backup runs at night", "deploys happen at noon", "tea is in the kitchen"
    )
    session = await gateway.session(config)

    answer = await gateway.load(session, strategy="pack", cue="when does the backup run", top_k=1)

    told = answer.json()
    assert told["memory"] == "## Recalled memory (ranked for this task)\n\nthe backup runs at night"
    assert (told["count"], told["strategy"]) == (1, "pack")
    assert UUID(told["pack_id"]).version == 4


async def test_a_cue_that_is_left_out_is_the_sessions_task(gateway: Asking) -> None:
    config = await gateway.config(memory_strategy="pack", memory_top_k=1)
    await gateway.remember(config, "the backup runs at night", "deploys happen at noon")
    session = await gateway.session(config, task="move the backup")

    answer = await gateway.load(session)

    assert answer.json()["memory"].endswith("the backup runs at night")
    (event,) = await recorded(gateway)
    assert event["cue"] == "move the backup"


async def test_an_empty_cue_is_not_the_sessions_task(gateway: Asking) -> None:
    session = await gateway.session(await gateway.config(), task="move the backup")

    await gateway.load(session, cue="", strategy="pack")

    (event,) = await recorded(gateway)
    assert event["cue"] == ""


async def test_semantic_falls_back_to_last_k_and_says_so(gateway: Asking) -> None:
    config = await gateway.config(memory_strategy="semantic")
    await gateway.remember(config, "older", "newer")
    session = await gateway.session(config)

    told = (await gateway.load(session)).json()

    assert told["memory"] == "newer\n---\nolder"
    assert (told["requested_strategy"], told["strategy"]) == ("semantic", "last_k")
    assert told["fallback_reason"] == "semantic_not_available"
    (event,) = await recorded(gateway)
    assert (event["requested_strategy"], event["strategy"]) == ("semantic", "last_k")


async def test_no_entries_give_the_empty_text_and_a_recall_of_nothing(gateway: Asking) -> None:
    session = await gateway.session(await gateway.config(memory_strategy="pack"))

    told = (await gateway.load(session, cue="anything")).json()

    assert (told["memory"], told["count"]) == ("", 0)
    (event,) = await recorded(gateway)
    assert (event["event_id"], event["pack_id"]) == (told["recall_id"], told["pack_id"])
    assert (event["entries"], event["budget_used_chars"]) == ([], 0)


async def test_an_explained_load_tells_each_score_part_and_what_was_passed_over(gateway: Asking) -> None:
    config = await gateway.config()
    first, second = await gateway.remember(config, "the backup runs at night", "deploys happen at noon")
    session = await gateway.session(config)

    told = (await gateway.load(session, strategy="pack", cue="backup", top_k=1, explain=True)).json()

    (entry,) = told["explanation"]["entries"]
    assert (entry["memory_id"], entry["rank"], entry["importance"]) == (str(first), 1, 0.5)
    assert entry["relevance"] == 1.0
    assert entry["recency"] == pytest.approx(1.0, abs=1e-4)
    assert entry["score"] == pytest.approx(0.60 + 0.25 * 0.5 + 0.15, abs=1e-4)
    (left_out,) = told["explanation"]["passed_over"]
    assert (left_out["memory_id"], left_out["reason"]) == (str(second), "beyond_top_k")
    assert left_out["relevance"] == 0.0


async def test_a_load_that_is_not_to_be_explained_is_not(gateway: Asking) -> None:
    session = await gateway.session(await gateway.config())

    assert (await gateway.load(session)).json()["explanation"] is None


async def test_what_was_handed_out_is_recorded_behind_the_answer(gateway: Asking) -> None:
    config = await gateway.config(memory_strategy="pack", memory_top_k=1)
    first, second = await gateway.remember(config, "the backup runs at night", "tea", principal="bob")
    session = await gateway.session(config, BOB)

    told = (await gateway.load(session, cue="back\0up")).json()

    (event,) = await recorded(gateway)
    assert event["event_id"] == told["recall_id"]
    assert event["pack_id"] == told["pack_id"]
    assert event["session_uuid"] == str(session.uuid)
    assert event["agent_config_uuid"] == str(config)
    assert event["caller"] == BOB
    assert event["cue"] == "backup"
    assert event["top_k"] == 1
    assert event["budget_used_chars"] == len(told["memory"]) == 67
    assert event["entries"] == []
    assert HandedOutColumns.model_validate(event["handed_out"]).ids() == first.bytes
    left_out = LeftOut.model_validate(event["left_out"]).entries()
    assert [(left.memory_id, left.reason) for left in left_out] == [(second, "beyond_top_k")]


async def test_a_load_writes_nothing_on_its_path(database_url: str) -> None:
    """A transaction that writes holds an id: with the recorder's queue untouched, none is taken by the loads."""
    async with running_gateway(database_url, accept="bus", publish_timeout_seconds=0.2) as gateway:
        config = await gateway.config(memory_strategy="pack")
        await gateway.remember(config, "one", "two")
        session = await gateway.session(config)
        before = await gateway.rows("SELECT access_count, updated_at FROM lorebus.memories ORDER BY id")
        async with gateway.database.begin() as connection:
            # Whoever wants to write anything now waits for us; a load must not.
            await connection.exec_driver_sql(
                "LOCK lorebus.memories, lorebus.recalls, lorebus.recall_entries, lorebus.workflow_runs,"
                " lorebus.outbox, lorebus.sessions, lorebus.agent_configs, lorebus.processed_events"
                " IN SHARE ROW EXCLUSIVE MODE"
            )
            answers = [await gateway.load(session, cue="one") for _ in range(5)]
        after = await gateway.rows("SELECT access_count, updated_at FROM lorebus.memories ORDER BY id")

    assert [answer.status_code for answer in answers] == [200] * 5
    assert before == after


@pytest.mark.parametrize("ref", [None, "", "   "])
@pytest.mark.parametrize("strategy", ["last_k", "importance", "full", "pack", "semantic"])
async def test_an_unidentified_end_user_gets_no_memory_and_leaves_no_recall(
    gateway: Asking, ref: str | None, strategy: str
) -> None:
    config = await gateway.config(memory_strategy=strategy)
    await gateway.remember(config, "shared")
    await gateway.remember(config, "bob's", principal="bob")
    session = await gateway.session(config, {"kind": "end_user", "ref": ref})

    answer = await gateway.load(session, cue="shared bob")

    told = answer.json()
    assert answer.status_code == 200
    assert (told["memory"], told["count"]) == ("", 0)
    assert told["skipped_reason"] == "unidentified_end_user"
    assert (told["recall_id"], told["pack_id"]) == (None, None)
    await gateway.load(await gateway.session(config))
    assert [event["caller"]["kind"] for event in await recorded(gateway)] == ["none"]


@pytest.mark.parametrize("off", ["organization", "config"])
async def test_memory_that_is_off_gives_none_and_records_no_recall(gateway: Asking, off: str) -> None:
    config = await gateway.config(memory_enabled=off != "config")
    await gateway.ask("PUT", "/api/app/organization", json={"memory_enabled": off != "organization"})
    await gateway.remember(config, "shared")
    session = await gateway.session(config)

    told = (await gateway.load(session)).json()

    assert (told["memory"], told["count"], told["recall_id"]) == ("", 0, None)
    assert told["skipped_reason"] == "memory_disabled"


@pytest.mark.parametrize(
    ("caller", "memory"),
    [
        ({"kind": "none"}, "shared"),
        ({"kind": "end_user", "ref": "user1"}, "of user1"),
        ({"kind": "end_user", "ref": "user10"}, "of user10"),
        ({"kind": "end_user", "ref": "user"}, ""),
        ({"kind": "end_user", "ref": "User1"}, ""),
        ({"kind": "end_user", "ref": "user%"}, ""),
        ({"kind": "actor", "ref": "user1"}, "of user1\n---\nshared"),
        ({"kind": "actor", "ref": "ann"}, "shared"),
    ],
)
async def test_each_caller_sees_its_own_and_only_staff_the_pool_as_well(
    gateway: Asking, caller: dict[str, str], memory: str
) -> None:
    config = await gateway.config()
    await gateway.remember(config, "shared")
    await gateway.remember(config, "of user10", principal="user10")
    await gateway.remember(config, "of user1", principal="user1")
    session = await gateway.session(config, caller)

    assert (await gateway.load(session)).json()["memory"] == memory


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"top_k": 0}, "top_k"),
        ({"top_k": 1001}, "top_k"),
        ({"top_k": "3"}, "top_k"),
        ({"top_k": True}, "top_k"),
        ({"strategy": "newest"}, "strategy"),
        ({"cue": 7}, "cue"),
        ({"cue": "x" * 100_001}, "cue"),
        ({"explain": "yes"}, "explain"),
        ({"principal_ref": "bob"}, "principal_ref"),
        ({"session_uuid": str(uuid4())}, "session_uuid"),
        ({"agent_config_uuid": str(uuid4())}, "agent_config_uuid"),
    ],
)
async def test_a_load_that_is_not_what_it_should_be_is_refused(
    gateway: Asking, body: dict[str, object], path: str
) -> None:
    session = await gateway.session(await gateway.config())

    answer = await gateway.load(session, **body)

    assert answer.status_code == 422
    assert [fault["path"] for fault in answer.json()["faults"]] == [path]


async def test_a_half_surrogate_in_a_cue_is_replaced(gateway: Asking) -> None:
    session = await gateway.session(await gateway.config())

    path = f"/api/agents/sessions/{session.uuid}/memory-load"
    answer = await gateway.ask("POST", path, token=session.token, content=b'{"cue": "ship \\ud83d it"}')

    assert answer.status_code == 200
    (event,) = await recorded(gateway)
    assert event["cue"] == "ship \ufffd it"


async def test_the_launch_recall_is_a_load_with_the_task_as_cue(gateway: Asking) -> None:
    config = await gateway.config(memory_strategy="pack", memory_top_k=1)
    await gateway.remember(config, "the backup runs at night", "tea")

    session = await gateway.session(config, task="mend the backup", load=True)

    recall = session.answer["recall"]
    assert recall["memory"].endswith("\n\nthe backup runs at night")
    (event,) = await recorded(gateway)
    assert (event["event_id"], event["session_uuid"]) == (recall["recall_id"], str(session.uuid))


async def test_forty_loads_at_once_are_all_recorded(gateway: Asking) -> None:

    config = await gateway.config()
    await gateway.remember(config, *(f"fact {i}" for i in range(10)))
    session = await gateway.session(config)

    answers = await asyncio.gather(*(gateway.load(session) for _ in range(40)))

    told = {answer.json()["recall_id"] for answer in answers}
    assert {event["event_id"] for event in await recorded(gateway, 40)} == told
    assert len(told) == 40
