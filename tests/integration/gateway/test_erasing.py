"""Erasing a person, a session, an entry: nothing of it is left, the receipt is true, and nothing brings it back."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from lorebus_contracts.events import Event, RecallRecorded
from lorebus_contracts.workflows import State
from lorebus_distill.handlers import on_session_ended
from lorebus_kit.keys import create_key
from lorebus_kit.run_ids import distill_run_id
from lorebus_kit.subscription import Handler
from lorebus_kit.verdicts import Applied, Skipped, Verdict
from lorebus_recall_labeller.handlers import on_session_events
from lorebus_save.handlers import on_save_requested
from lorebus_store import leases
from tests.support.erased import traces
from tests.support.events import NOBODY, Scope, end_user, ended, recalled, save
from tests.support.gateways import Asking, Registered

ERASE = "/api/app/agents/memory/erase"
ERASURES = "/api/app/agents/memory/erasures"
BOB = "bob-7f3a"
NOTHING = {
    "entries": 0,
    "evidence": 0,
    "recalls": 0,
    "recall_entries": 0,
    "sessions": 0,
    "run_inputs": 0,
    "outbox": 0,
    "answers": 0,
}


async def erase(gateway: Asking, **subject: object) -> dict[str, Any]:
    answer = await gateway.ask("POST", ERASE, json={name: str(value) for name, value in subject.items()})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def consume(gateway: Asking, handler: Handler, *events: Event) -> list[Verdict]:
    """What a consumer makes of these events."""
    async with gateway.database.begin() as connection:
        return list(await handler(connection, events))


async def count(gateway: Asking, table: str) -> int:
    (row,) = await gateway.rows(f"SELECT count(*) FROM lorebus.{table}")  # noqa: S608 - A name of ours.
    return int(row["count"])


async def memory_of(gateway: Asking, config: UUID) -> Mapping[str, Any]:
    answer = await gateway.ask("GET", "/api/app/agents/memory", params={"agent_config_uuid": config})
    told: Mapping[str, Any] = answer.json()
    return told


async def receipt_of(gateway: Asking, recall: RecallRecorded) -> Mapping[str, Any]:
    answer = await gateway.ask("GET", f"/api/app/agents/recalls/{recall.event_id}")
    assert answer.status_code == 200
    told: Mapping[str, Any] = answer.json()
    return told


def scope_of(gateway: Asking, config: UUID) -> Scope:
    return Scope(gateway.organization_uuid, config)


def at(event: Event, moment: datetime) -> Any:  # noqa: ANN401 - The same kind of event.
    return event.model_copy(update={"occurred_at": moment})


async def lived_with_bob(gateway: Asking, config: UUID) -> Registered:
    """Entries, recalls, a session, two runs that wait and their events, all of bob; and some of others."""
    scope = scope_of(gateway, config)
    ids = await gateway.remember(config, "bob likes tea", "bob is loud", principal=BOB)
    await gateway.remember(config, "alice likes tea", principal="alice")
    await gateway.remember(config, "everybody likes tea")
    session = await gateway.session(config, {"kind": "end_user", "ref": BOB}, task="bob wants tea")
    recall = recalled(scope, ids, session_uuid=session.uuid, caller=end_user(BOB))
    assert await consume(gateway, on_session_events, recall) == [Applied()]
    assert (await gateway.save(session, {"content": "bob left"})).status_code == 202
    end = {"outcome": "success", "step_count": 3, "trace": [{"tool": "kettle", "output": "bob's tea"}]}
    answer = await gateway.ask("POST", f"/api/app/agents/sessions/{session.uuid}/end", json=end)
    assert answer.status_code == 202
    return session


async def test_nothing_of_an_erased_person_is_left_and_the_receipt_counts_it(gateway: Asking) -> None:
    config = await gateway.config()
    await lived_with_bob(gateway, config)
    assert len(await traces(gateway.database, BOB, "bob")) > 8

    receipt = await erase(gateway, principal_ref=BOB)

    assert receipt["counts"] == NOTHING | {
        "entries": 2,
        "recalls": 1,
        "recall_entries": 2,
        "sessions": 1,
        "run_inputs": 2,
        "outbox": 2,
    }
    assert await traces(gateway.database, BOB, "bob") == []
    assert [item["text"] for item in (await memory_of(gateway, config))["items"]] == [
        "everybody likes tea",
        "alice likes tea",
    ]
    assert await count(gateway, "memories") == 2
    (counter,) = await gateway.rows("SELECT entry_count FROM lorebus.agent_configs")
    assert counter["entry_count"] == 2


async def test_runs_of_an_erased_person_that_had_not_ended_end_and_say_why(gateway: Asking) -> None:
    config = await gateway.config()
    session = await lived_with_bob(gateway, config)
    (saving,) = await gateway.rows("SELECT id FROM lorebus.workflow_runs WHERE type = 'agents.memory-save'")

    await erase(gateway, principal_ref=BOB)

    for run_id in (saving["id"], distill_run_id(session.uuid)):
        run = (await gateway.ask("GET", f"/api/workflows/{run_id}")).json()
        assert (run["state_name"], run["state_data"]["skipped_reason"]) == ("completed", "erased")
        history = (await gateway.ask("GET", f"/api/workflows/{run_id}/history")).json()["history"]
        assert [step["state_name"] for step in history] == ["initiated", "run", "completed"]


async def test_an_answer_kept_for_a_key_goes_with_the_texts_in_it(gateway: Asking) -> None:
    config = await gateway.config()
    await gateway.remember(config, "bob likes tea", principal=BOB)
    session = await gateway.session(config, {"kind": "end_user", "ref": BOB})
    path = f"/api/agents/sessions/{session.uuid}/memory-load"
    load = await gateway.ask("POST", path, token=session.token, json={}, headers={"idempotency-key": "once"})
    assert load.json()["memory"] == "bob likes tea"

    async def recorded() -> bool:
        return await count(gateway, "outbox") == 1

    await gateway.until(recorded)
    receipt = await erase(gateway, principal_ref=BOB)

    assert (receipt["counts"]["answers"], receipt["counts"]["outbox"]) == (1, 1)
    assert await traces(gateway.database, BOB, "bob likes tea") == []


async def test_late_events_of_an_erased_person_are_skipped_and_later_ones_are_not(gateway: Asking) -> None:
    config = await gateway.config()
    scope = scope_of(gateway, config)
    saved = save(scope, "bob likes tea", caller=end_user(BOB))
    end = ended(scope, caller=end_user(BOB), task="bob wants tea")
    recall = recalled(scope, [uuid4()], caller=end_user(BOB))

    await erase(gateway, principal_ref=BOB)

    assert await consume(gateway, on_save_requested, saved) == [Skipped("erased")]
    assert await consume(gateway, on_session_ended, end) == [Skipped("erased")]
    assert await consume(gateway, on_session_events, end, recall) == [Skipped("erased")] * 2
    assert await traces(gateway.database, BOB, "bob") == []
    run = (await gateway.ask("GET", f"/api/workflows/{saved.event_id}")).json()
    assert (run["state_data"]["saved"], run["state_data"]["skipped_reason"]) == (0, "erased")

    later = save(scope, "bob likes coffee", caller=end_user(BOB))
    assert await consume(gateway, on_save_requested, later) == [Applied()]
    assert await consume(gateway, on_session_events, recalled(scope, [uuid4()], caller=end_user(BOB))) == [
        Applied()
    ]
    assert await consume(gateway, on_save_requested, save(scope, "of alice", caller=end_user("alice"))) == [
        Applied()
    ]
    texts = {item["text"] for item in (await memory_of(gateway, config))["items"]}
    assert texts == {"bob likes coffee", "of alice"}


async def test_a_session_of_an_erased_person_goes_on_as_new(gateway: Asking) -> None:
    config = await gateway.config()
    session = await lived_with_bob(gateway, config)
    await erase(gateway, principal_ref=BOB)

    load = await gateway.load(session)
    again = await gateway.session(
        config, {"kind": "end_user", "ref": BOB}, session_uuid=str(session.uuid), task="more tea"
    )

    assert (load.status_code, load.json()["count"]) == (200, 0)
    assert again.uuid == session.uuid
    assert (await gateway.save(again, {"content": "bob is back"})).status_code == 202


async def test_a_person_is_erased_in_one_agent_config_where_one_is_named(gateway: Asking) -> None:
    here, there = await gateway.config(), await gateway.config()
    for config in (here, there):
        await gateway.remember(config, "bob likes tea", principal=BOB)

    receipt = await erase(gateway, principal_ref=BOB, agent_config_uuid=here)

    assert (receipt["counts"]["entries"], receipt["agent_config_uuid"]) == (1, str(here))
    assert (await memory_of(gateway, here))["total"] == 0
    assert (await memory_of(gateway, there))["total"] == 1
    before = datetime.now(UTC) - timedelta(minutes=1)
    late = [at(save(scope_of(gateway, one), "late", caller=end_user(BOB)), before) for one in (here, there)]
    assert await consume(gateway, on_save_requested, *late) == [Skipped("erased"), Applied()]


async def test_a_person_is_another_in_another_organization(gateway: Asking) -> None:
    other = uuid4()
    other_key = await create_key(gateway.database, other, name="test")
    config = await gateway.config()
    await gateway.remember(config, "our bob likes tea", principal=BOB)

    answer = await gateway.ask("POST", ERASE, key=other_key, json={"principal_ref": BOB})

    assert answer.json()["counts"] == NOTHING
    assert (await memory_of(gateway, config))["total"] == 1
    own = await erase(gateway, principal_ref=BOB)
    assert own["subject_hash"] != answer.json()["subject_hash"]


async def test_nothing_of_an_erased_session_is_left_and_others_receipts_keep_the_ids(gateway: Asking) -> None:
    config = await gateway.config()
    scope = scope_of(gateway, config)
    session = await gateway.session(config, task="the task of the session")
    saved = save(scope, "said in the session", "said there too", caller=NOBODY, session_uuid=session.uuid)
    kept = save(scope, "said elsewhere", caller=NOBODY)
    assert await consume(gateway, on_save_requested, saved, kept) == [Applied()] * 2
    rows = await gateway.rows("SELECT id, text FROM lorebus.memories ORDER BY created_at, id")
    ids = [row["id"] for row in rows]
    own = recalled(scope, ids[:1], session_uuid=session.uuid)
    others = recalled(scope, ids)
    assert await consume(gateway, on_session_events, own, others) == [Applied()] * 2

    receipt = await erase(gateway, session_uuid=session.uuid)

    assert receipt["counts"] == NOTHING | {"entries": 2, "recalls": 1, "recall_entries": 3, "sessions": 1}
    assert await traces(gateway.database, "said in", "said there", "the task of") == []
    left = await gateway.rows("SELECT memory_id FROM lorebus.recall_entries")
    assert [row["memory_id"] for row in left] == [ids[2]]
    told = await receipt_of(gateway, others)
    assert [(entry["memory_id"], entry["rank"], entry["text"]) for entry in told["entries"]] == [
        (str(ids[0]), 1, None),
        (str(ids[1]), 2, None),
        (str(ids[2]), 3, "said elsewhere"),
    ]


async def test_an_erased_session_is_over_for_good(gateway: Asking) -> None:
    config = await gateway.config()
    scope = scope_of(gateway, config)
    session = await gateway.session(config)
    await erase(gateway, session_uuid=session.uuid)

    later = datetime.now(UTC) + timedelta(hours=1)
    saved = at(save(scope, "much later", caller=NOBODY, session_uuid=session.uuid), later)
    end = at(ended(scope, session_uuid=session.uuid), later)

    assert await consume(gateway, on_save_requested, saved) == [Skipped("erased")]
    assert await consume(gateway, on_session_ended, end) == [Skipped("erased")]
    assert (await gateway.load(session)).status_code == 404
    assert await count(gateway, "memories") == 0


async def test_a_deleted_entry_leaves_no_line_behind_and_a_receipt_keeps_its_id(gateway: Asking) -> None:
    config = await gateway.config()
    scope = scope_of(gateway, config)
    gone, stays = await gateway.remember(config, "is deleted", "stays")
    recall = recalled(scope, [stays, gone])
    assert await consume(gateway, on_session_events, recall) == [Applied()]

    answer = await gateway.ask("DELETE", f"/api/app/agents/memory/{gone}")

    assert answer.status_code == 204
    late = recalled(scope, [gone])
    assert await consume(gateway, on_session_events, late) == [Applied()]
    left = await gateway.rows("SELECT memory_id FROM lorebus.recall_entries")
    assert [row["memory_id"] for row in left] == [stays]
    assert await traces(gateway.database, "is deleted") == []
    for one, told in ((recall, [(str(stays), "stays"), (str(gone), None)]), (late, [(str(gone), None)])):
        entries = (await receipt_of(gateway, one))["entries"]
        assert [(entry["memory_id"], entry["text"]) for entry in entries] == told


async def test_a_second_erasure_finds_nothing_and_has_a_receipt_of_its_own(gateway: Asking) -> None:
    config = await gateway.config()
    await lived_with_bob(gateway, config)

    first, second = await erase(gateway, principal_ref=BOB), await erase(gateway, principal_ref=BOB)

    assert (first["counts"]["entries"], second["counts"]) == (2, NOTHING)
    assert first["erasure_id"] != second["erasure_id"]
    assert first["subject_hash"] == second["subject_hash"]
    for receipt in (first, second):
        answer = await gateway.ask("GET", f"{ERASURES}/{receipt['erasure_id']}")
        assert (answer.status_code, answer.json()) == (200, receipt)


async def test_the_receipt_says_until_when_the_bus_may_hold_records(gateway: Asking) -> None:
    receipt = await erase(gateway, session_uuid=uuid4())

    kept = datetime.fromisoformat(receipt["bus_keeps_until"]) - datetime.fromisoformat(receipt["erased_at"])
    assert kept == timedelta(days=30)
    assert (receipt["state_name"], receipt["is_terminal"], receipt["subject"]) == (
        "completed",
        True,
        "session",
    )


async def test_a_receipt_is_its_organizations_own(gateway: Asking) -> None:
    receipt = await erase(gateway, principal_ref=BOB)
    other_key = await create_key(gateway.database, uuid4(), name="test")

    asked = [
        await gateway.ask("GET", f"{ERASURES}/{receipt['erasure_id']}", key=other_key),
        await gateway.ask("GET", f"{ERASURES}/{uuid4()}"),
        await gateway.ask("GET", f"{ERASURES}/nothing"),
    ]

    assert [answer.status_code for answer in asked] == [404, 404, 404]
    assert len({answer.text for answer in asked}) == 1


async def test_the_same_key_gives_the_same_receipt(gateway: Asking) -> None:
    headers = {"idempotency-key": "erase bob"}
    first = await gateway.ask("POST", ERASE, json={"principal_ref": BOB}, headers=headers)
    again = await gateway.ask("POST", ERASE, json={"principal_ref": BOB}, headers=headers)
    other = await gateway.ask("POST", ERASE, json={"principal_ref": "alice"}, headers=headers)

    assert again.json() == first.json()
    assert (first.status_code, again.status_code, other.status_code) == (200, 200, 409)
    assert await count(gateway, "erasures") == 1


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({}, [""]),
        ({"principal_ref": "a", "session_uuid": "00000000-0000-4000-8000-000000000001"}, [""]),
        (
            {
                "session_uuid": "00000000-0000-4000-8000-000000000001",
                "agent_config_uuid": "00000000-0000-4000-8000-000000000002",
            },
            [""],
        ),
        ({"principal_ref": " "}, ["principal_ref"]),
        ({"principal_ref": "a\u0000"}, ["principal_ref"]),
        ({"principal_ref": None}, [""]),
        ({"session_uuid": "17"}, ["session_uuid"]),
        ({"principal_ref": "a", "organization_uuid": "b"}, ["organization_uuid"]),
    ],
)
async def test_a_subject_that_is_none_is_refused(
    gateway: Asking, body: Mapping[str, object], paths: Sequence[str]
) -> None:
    answer = await gateway.ask("POST", ERASE, json=body)

    assert answer.status_code == 422
    assert [fault["path"] for fault in answer.json()["faults"]] == list(paths)
    assert await count(gateway, "erasures") == 0


async def test_an_agent_config_of_somebody_else_is_not_there(gateway: Asking) -> None:
    other_key = await create_key(gateway.database, uuid4(), name="test")
    config = await gateway.config()

    answer = await gateway.ask(
        "POST", ERASE, key=other_key, json={"principal_ref": BOB, "agent_config_uuid": str(config)}
    )

    assert answer.status_code == 404


async def test_a_distill_in_hand_is_lost_to_an_erasure(gateway: Asking) -> None:
    config = await gateway.config()
    scope = scope_of(gateway, config)
    end = ended(scope, caller=end_user(BOB), task="bob wants tea", step_count=5)
    assert await consume(gateway, on_session_ended, end) == [Applied()]
    async with gateway.database.begin() as connection:
        (claimed,) = await leases.claim_due(connection, limit=1, lease_seconds=60.0, per_organization=1)

    receipt = await erase(gateway, principal_ref=BOB)

    async with gateway.database.begin() as connection:
        mine = await leases.finish_leased(
            connection,
            organization_uuid=claimed.organization_uuid,
            run_id=claimed.id,
            token=claimed.token,
            state_name=State.COMPLETED,
            state_data="{}",
            at=datetime.now(UTC),
        )
    assert (receipt["counts"]["run_inputs"], mine) == (1, False)
    run = (await gateway.ask("GET", f"/api/workflows/{claimed.id}")).json()
    assert (run["state_name"], run["state_data"]["skipped_reason"]) == ("completed", "erased")


async def test_an_erasure_amid_saves_lets_none_of_before_through(gateway: Asking) -> None:
    config = await gateway.config()
    scope = scope_of(gateway, config)
    before = [save(scope, f"before {number}", caller=end_user(BOB)) for number in range(40)]
    others = [save(scope, f"of alice {number}", caller=end_user("alice")) for number in range(40)]

    async def consume_all() -> None:
        for pair in zip(before, others, strict=True):
            await consume(gateway, on_save_requested, *pair)

    async def erase_amid() -> dict[str, Any]:
        async def some_are_saved() -> bool:
            return await count(gateway, "memories") >= 10

        await gateway.until(some_are_saved)
        return await erase(gateway, principal_ref=BOB)

    receipt, _ = await asyncio.gather(erase_amid(), consume_all())

    rows = await gateway.rows("SELECT principal_ref, count(*) FROM lorebus.memories GROUP BY 1")
    assert [(row["principal_ref"], row["count"]) for row in rows] == [("alice", 40)]
    assert 5 <= receipt["counts"]["entries"] <= 40
    (counter,) = await gateway.rows("SELECT entry_count FROM lorebus.agent_configs")
    assert counter["entry_count"] == 40


async def test_a_save_in_hand_ends_before_the_erasure_that_takes_it(gateway: Asking) -> None:
    config = await gateway.config()
    event = save(scope_of(gateway, config), "in hand", caller=end_user(BOB))
    async with gateway.database.begin() as connection:
        assert await on_save_requested(connection, [event]) == [Applied()]
        erasing = asyncio.create_task(erase(gateway, principal_ref=BOB))

        async def waits() -> bool:
            rows = await gateway.rows("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory'")
            return len(rows) == 1

        await gateway.until(waits)

    assert (await erasing)["counts"]["entries"] == 1
    assert await count(gateway, "memories") == 0


async def test_the_live_tail_is_told_which_entries_are_gone(gateway: Asking) -> None:
    config = await gateway.config()
    ids = await gateway.remember(config, "one", "two", principal=BOB)

    await erase(gateway, principal_ref=BOB)

    (row,) = await gateway.rows("SELECT payload FROM lorebus.outbox WHERE topic = 'memory.changed'")
    assert b'"kind":"deleted"' in row["payload"]
    assert all(str(memory_id).encode() in row["payload"] for memory_id in ids)
