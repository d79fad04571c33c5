"""The distill consumer and its workers as a process, with the save consumer behind it, on a real broker and store."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from lorebus_contracts.events import SessionEnded, ToolCallBody
from lorebus_contracts.topics import DISTILL_GROUP, SAVE_GROUP, SAVE_REQUESTED, SESSION_ENDED
from lorebus_contracts.wire import parse
from lorebus_domain.distilling import Lesson, ToolCall, prepare
from lorebus_domain.trace_rules import distil_by_rules
from lorebus_kit.run_ids import distill_run_id, distill_save_id
from lorebus_store import sessions
from lorebus_store.run_rows import Run
from tests.integration.consumers.poisoned import assert_set_aside, send_among_poison
from tests.support.counted import assert_accounted_for
from tests.support.databases import ArrangedDatabase, execute
from tests.support.events import NOBODY, UNIDENTIFIED, Scope, actor, end_user, ended, new_scope
from tests.support.memory import ended_run, entries_of, find_run, know_session, known_scope
from tests.support.services import Service, services
from tests.support.wire import Wire

pytestmark = pytest.mark.asyncio(loop_scope="module")

REAL_SESSIONS = Path(__file__).parents[3] / "services/lorebus_ops/data/sessions.jsonl"
FAILS = ToolCallBody(
    tool="search", input={"query": "flights"}, output="Error: date is missing", is_error=True
)
WORKS = ToolCallBody(tool="search", input={"query": "flights", "date": "2026-09-01"}, output="3 flights")


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def processes(
    shared_database_url: str, bootstrap_servers: str, shared_topics: str
) -> AsyncIterator[tuple[Service, ...]]:
    async with services(
        "distill",
        "save",
        database_url=shared_database_url,
        bootstrap_servers=bootstrap_servers,
        topic_prefix=shared_topics,
    ) as started:
        yield started


def real_sessions() -> list[SessionEnded]:
    """The sessions of the demo, each told anew."""
    return [
        parse(SessionEnded, line).model_copy(update={"event_id": uuid4()})
        for line in REAL_SESSIONS.read_bytes().splitlines()
    ]


def lessons_of(event: SessionEnded) -> tuple[Lesson, ...]:
    """What the rules make of a session."""
    trace = [ToolCall(call.tool, call.input, call.output, call.is_error) for call in event.trace]
    return distil_by_rules(prepare(outcome=event.outcome, task=event.task, trace=trace).input)


async def distilled(database: ArrangedDatabase, event: SessionEnded) -> Run:
    """The session's distill once it has ended."""
    scope = Scope(event.organization_uuid, event.agent_config_uuid)
    return await ended_run(database, scope, distill_run_id(event.session_uuid))


async def reasons_of(wire: Wire, event: SessionEnded) -> list[bytes | None]:
    """Why the records with this event's key were dead-lettered."""
    letters = await wire.dead_letters(SESSION_ENDED, DISTILL_GROUP)
    return [dict(letter.headers)["lorebus-error-text"] for letter in letters if letter.key == event.key()]


async def test_real_sessions_become_the_lessons_of_the_rules_and_a_second_telling_changes_nothing(
    database: ArrangedDatabase, wire: Wire
) -> None:
    events = real_sessions()
    scopes = {Scope(event.organization_uuid, event.agent_config_uuid) for event in events}
    for scope in scopes:
        await known_scope(database, scope=scope)
    await wire.send(*events)
    runs = [await distilled(database, event) for event in events]
    for event, run in zip(events, runs, strict=True):
        lessons = lessons_of(event)
        assert (run.state_name, run.state_data["lessons"]) == ("completed", len(lessons))
        assert [step["state_name"] for step in run.history] == ["initiated", "run", "completed"]
        if not lessons:
            assert run.state_data["skipped_reason"] == "no_lessons"
            continue
        save_id = distill_save_id(event.session_uuid)
        assert run.state_data["save_workflow_id"] == str(save_id)
        scope = Scope(event.organization_uuid, event.agent_config_uuid)
        output = (await ended_run(database, scope, save_id)).state_data
        assert output["saved"] + output["reinforced"] == len(lessons)
    kept = [entry for scope in scopes for entry in await entries_of(database, scope)]
    taught = {(event.caller.principal_ref(), lesson.text) for event in events for lesson in lessons_of(event)}
    assert {(entry.principal_ref, entry.text) for entry in kept} == taught
    assert {entry.origin for entry in kept} == {"distill"}

    told_again = [event.model_copy(update={"event_id": uuid4()}) for event in events]
    await wire.send(*events, *told_again)
    await wire.settled(DISTILL_GROUP, SESSION_ENDED)
    await wire.settled(SAVE_GROUP, SAVE_REQUESTED)
    assert [await distilled(database, event) for event in events] == runs
    assert [entry for scope in scopes for entry in await entries_of(database, scope)] == kept


async def test_one_session_told_twice_in_one_batch_is_distilled_once(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    event = ended(scope, outcome="failed", trace=[FAILS, WORKS])
    await wire.send(event, event, event.model_copy(update={"event_id": uuid4()}), partition=0)
    run = await distilled(database, event)
    await wire.settled(DISTILL_GROUP, SESSION_ENDED)
    await ended_run(database, scope, distill_save_id(event.session_uuid))
    assert [entry.reinforcement_count for entry in await entries_of(database, scope)] == [0] * run.state_data[
        "lessons"
    ]


@pytest.mark.parametrize(
    ("off", "changes", "reason"),
    [
        pytest.param("organization", {}, "memory_disabled", id="organization off"),
        pytest.param("config", {}, "memory_disabled", id="config off"),
        pytest.param("writing", {}, "write_disabled", id="writing off"),
        pytest.param(None, {"outcome": "cancelled"}, "not_terminal", id="neither success nor failed"),
        pytest.param(None, {"step_count": 1}, "too_few_steps", id="one step"),
        pytest.param(None, {"caller": UNIDENTIFIED}, "unidentified_end_user", id="nobody could say who"),
        pytest.param(
            "writing",
            {"outcome": "lost", "step_count": 0},
            "write_disabled",
            id="first reason",
        ),
    ],
)
async def test_a_session_that_may_not_be_distilled_says_why(
    database: ArrangedDatabase, wire: Wire, off: str | None, changes: dict[str, Any], reason: str
) -> None:
    scope = await known_scope(
        database,
        organization_enabled=off != "organization",
        config_enabled=off != "config",
        write_enabled=off != "writing",
    )
    event = ended(scope, trace=[FAILS, WORKS], **changes)
    await wire.send(event)
    run = await distilled(database, event)
    assert (run.state_name, run.state_data) == ("completed", {"lessons": 0, "skipped_reason": reason})
    assert await entries_of(database, scope) == ()


async def test_a_session_without_calls_and_task_completes_without_asking_anybody(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    event = ended(scope, task="  ", trace=[], step_count=4)
    await wire.send(event)
    run = await distilled(database, event)
    assert (run.state_name, run.state_data["skipped_reason"]) == ("completed", "no_lessons")


async def test_an_output_of_300_000_characters_does_not_fail_the_distill(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    long = WORKS.model_copy(update={"output": "x" * 300_000})
    event = ended(scope, step_count=3, trace=[FAILS, long])
    await wire.send(event)
    assert (await distilled(database, event)).state_name == "completed"


async def test_memory_that_was_recalled_into_a_session_is_not_learnt_again(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    recalled = "## Recalled memory (ranked for this task)\n\nsearch needs a date\n---\nalways retry search"
    event = ended(scope, task="book", trace=[FAILS.model_copy(update={"output": recalled}), WORKS])
    await wire.send(event)
    await distilled(database, event)
    await wire.settled(SAVE_GROUP, SAVE_REQUESTED)
    assert not [entry for entry in await entries_of(database, scope) if "always retry" in entry.text]


async def test_a_session_of_an_unknown_organization_is_set_aside_and_nothing_is_written_for_it(
    database: ArrangedDatabase, wire: Wire
) -> None:
    event = ended(new_scope(), trace=[FAILS, WORKS])
    await wire.send(event)
    await wire.settled(DISTILL_GROUP, SESSION_ENDED)
    assert await reasons_of(wire, event) == [b"unknown_organization"]
    assert await session_of(database, event) is None
    assert await run_of(database, event) is None


async def test_a_session_of_an_unknown_agent_config_completes_without_effect(
    database: ArrangedDatabase, wire: Wire
) -> None:
    known = await known_scope(database)
    event = ended(Scope(known.organization_uuid, uuid4()), trace=[FAILS, WORKS])
    await wire.send(event)
    assert (await distilled(database, event)).state_data["skipped_reason"] == "unknown_agent_config"
    assert await session_of(database, event) is None


async def test_poison_among_sound_sessions_is_set_aside_and_the_sound_ones_are_distilled(
    database: ArrangedDatabase, wire: Wire, shared_topics: str
) -> None:
    scope = await known_scope(database)
    before = await wire.dead_letters(SESSION_ENDED, DISTILL_GROUP)
    sound = [ended(scope, outcome="failed", trace=[FAILS, WORKS]) for _ in range(10)]
    await send_among_poison(wire, *sound, group=DISTILL_GROUP)
    await wire.settled(DISTILL_GROUP, SESSION_ENDED)
    letters = await wire.dead_letters(SESSION_ENDED, DISTILL_GROUP, count=len(before) + 10)
    new = [letter for letter in letters if letter not in before]
    assert_set_aside(new, sound[0], origin=f"{shared_topics}session.ended", group=DISTILL_GROUP)
    assert {(await distilled(database, event)).state_name for event in sound} == {"completed"}


@pytest.mark.parametrize("registered", [True, False])
async def test_an_end_told_under_another_agent_config_is_rejected_and_the_sessions_own_is_distilled(
    database: ArrangedDatabase,
    wire: Wire,
    registered: bool,  # noqa: FBT001 - A parameter of the test.
) -> None:
    mine = await known_scope(database)
    other = await known_scope(database, scope=Scope(mine.organization_uuid, uuid4()))
    genuine = ended(mine, caller=actor("ann"), outcome="failed", trace=[FAILS, WORKS])
    await know_session(database, genuine, registered=registered)
    forged = ended(other, session_uuid=genuine.session_uuid, caller=actor("eve"), trace=[FAILS, WORKS])
    await wire.send(forged, partition=0)
    await wire.settled(DISTILL_GROUP, SESSION_ENDED)
    assert await reasons_of(wire, genuine) == [b"session_mismatch"]
    assert await run_of(database, forged) is None
    await wire.send(genuine, partition=0)
    assert (await distilled(database, genuine)).agent_config_uuid == mine.agent_config_uuid
    await ended_run(database, mine, distill_save_id(genuine.session_uuid))
    assert {entry.principal_ref for entry in await entries_of(database, mine)} == {"ann"}
    assert await entries_of(database, other) == ()


async def test_an_end_told_for_another_caller_than_the_registered_one_is_rejected(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    genuine = ended(scope, caller=end_user("bob"), outcome="failed", trace=[FAILS, WORKS])
    await know_session(database, genuine, registered=True)
    forgeries = [
        genuine.model_copy(update={"event_id": uuid4(), "caller": caller})
        for caller in (end_user("alice"), UNIDENTIFIED, actor("bob"), NOBODY)
    ]
    await wire.send(*forgeries, genuine, partition=0)
    assert (await distilled(database, genuine)).state_name == "completed"
    await wire.settled(DISTILL_GROUP, SESSION_ENDED)
    assert await reasons_of(wire, genuine) == [b"session_mismatch"] * 4
    await ended_run(database, scope, distill_save_id(genuine.session_uuid))
    assert {entry.principal_ref for entry in await entries_of(database, scope)} == {"bob"}


async def test_of_two_configs_that_claim_a_new_session_in_one_batch_the_first_has_it(
    database: ArrangedDatabase, wire: Wire
) -> None:
    mine = await known_scope(database)
    other = await known_scope(database, scope=Scope(mine.organization_uuid, uuid4()))
    first = ended(mine, trace=[FAILS, WORKS])
    second = ended(other, session_uuid=first.session_uuid, trace=[FAILS, WORKS])
    await wire.send(first, second, partition=0)
    await wire.settled(DISTILL_GROUP, SESSION_ENDED)
    assert (await distilled(database, first)).agent_config_uuid == mine.agent_config_uuid
    assert await reasons_of(wire, first) == [b"session_mismatch"]


async def test_a_session_that_the_store_refuses_is_set_aside_with_a_failed_run_and_can_be_replayed(
    database: ArrangedDatabase, wire: Wire, shared_database_url: str
) -> None:
    scope = await known_scope(database)
    bomb, sound = ended(scope, task="bomb", trace=[FAILS, WORKS]), ended(scope, trace=[FAILS, WORKS])
    refuse = "ALTER TABLE lorebus.sessions ADD CONSTRAINT bombs CHECK (task <> 'bomb')"
    await execute(shared_database_url, refuse)
    try:
        await wire.send(bomb, sound, partition=0)
        failed = await distilled(database, bomb)
    finally:
        await execute(shared_database_url, "ALTER TABLE lorebus.sessions DROP CONSTRAINT bombs")
    assert (await distilled(database, sound)).state_name == "completed"
    assert failed.state_name == "failed"
    assert (failed.state_data["failure_reason"], failed.state_data["error_type"]) == (
        "dead_lettered",
        "PermanentError",
    )
    (letter,) = [
        letter for letter in await wire.dead_letters(SESSION_ENDED, DISTILL_GROUP) if letter.key == bomb.key()
    ]
    await wire.send_raw(SESSION_ENDED.name, letter.value, key=letter.key)
    await wire.settled(DISTILL_GROUP, SESSION_ENDED)
    run = await distilled(database, bomb)
    assert run.state_name == "completed"
    assert [step["state_name"] for step in run.history] == ["initiated", "failed", "run", "completed"]


async def test_what_is_consumed_is_accounted_for(
    database: ArrangedDatabase, processes: tuple[Service, ...], wire: Wire
) -> None:
    scope = await known_scope(database)
    await wire.send(*[ended(scope) for _ in range(20)])
    await wire.settled(DISTILL_GROUP, SESSION_ENDED)
    assert await assert_accounted_for(processes[0].url) >= 20


async def session_of(database: ArrangedDatabase, event: SessionEnded) -> sessions.Session | None:
    async with database.read() as connection:
        return await sessions.get(connection, event.organization_uuid, event.session_uuid)


async def run_of(database: ArrangedDatabase, event: SessionEnded) -> Run | None:
    scope = Scope(event.organization_uuid, event.agent_config_uuid)
    return await find_run(database, scope, distill_run_id(event.session_uuid))
