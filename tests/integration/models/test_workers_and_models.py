"""The distill workers with real HTTP between them and their models: who is asked, when again, and at what cost."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from lorebus_contracts.events import SessionEnded, ToolCallBody
from lorebus_recall_labeller.handlers import on_session_events
from lorebus_save.handlers import on_save_requested
from lorebus_store import model_usage
from lorebus_store.statements import Statement
from tests.integration.models.distilling import Distilling, distilling
from tests.support.events import Scope, recalled, save
from tests.support.memory import entries_of
from tests.support.model_server import fails, hangs, lessons, model_server, says
from tests.support.waiting import eventually


@pytest.fixture
async def ground(database_url: str) -> AsyncIterator[Distilling]:
    async with distilling(database_url) as made:
        yield made


async def row_of(ground: Distilling, event: SessionEnded) -> tuple[datetime, datetime, int]:
    """When the run is due and when it was given back, and its attempts."""
    sql = "SELECT due_at, updated_at, attempts FROM lorebus.workflow_runs WHERE session_uuid = :session"
    async with ground.database.read() as connection:
        due_at, updated_at, attempts = await Statement(sql).row(connection, {"session": event.session_uuid})
    return due_at, updated_at, attempts


async def filled_with(ground: Distilling, scope: Scope, *texts: str) -> list[UUID]:
    """The ids of entries with these texts."""
    async with ground.database.begin() as connection:
        await on_save_requested(connection, [save(scope, *texts)])
    return [entry.id for entry in await entries_of(ground.database, scope)]


async def test_each_organization_is_distilled_by_the_model_it_names_or_by_the_rules(
    ground: Distilling,
) -> None:
    async with (
        model_server(otherwise=says(lessons("small lesson"))) as small,
        model_server(otherwise=says(lessons("big lesson"))) as big,
        ground.workers({"small": small.profile(), "big": big.profile()}),
    ):
        sessions = [await ground.end(await ground.organization(name)) for name in ("small", "big", None)]
        runs = [await ground.ended(session) for session in sessions]

    assert [run.state_data["provider"] for run in runs] == ["openai", "openai", "trace-rules"]
    assert (len(small.asked), len(big.asked)) == (1, 1)
    told = {save.session_uuid: save.entries[0].text for save in await ground.saves()}
    assert told == {sessions[0].session_uuid: "small lesson", sessions[1].session_uuid: "big lesson"}


async def test_what_a_model_took_stands_in_the_run_and_with_each_lesson(ground: Distilling) -> None:
    async with (
        model_server(otherwise=says(lessons("a lesson"))) as server,
        ground.workers({"m": server.profile(prompt_token_price=0.5)}),
    ):
        run = await ground.ended(await ground.end(await ground.organization("m")))

    [save] = await ground.saves()
    milliseconds = run.state_data["milliseconds"]
    assert milliseconds >= 0
    assert run.state_data == {
        "save_workflow_id": str(save.event_id),
        "lessons": 1,
        "provider": "openai",
        "provider_version": "1",
        "model": "tiny-instruct",
        "prompt_version": "1",
        "calls": 1,
        "prompt_tokens": 700,
        "completion_tokens": 40,
        "milliseconds": milliseconds,
        "price": 350.0,
    }
    assert save.provenance is not None
    assert save.provenance.model_dump(mode="json") == {
        "provider": "openai",
        "version": "1",
        "distill_workflow_id": str(run.id),
        "model": "tiny-instruct",
        "prompt_version": "1",
        "prompt_tokens": 700,
        "completion_tokens": 40,
        "milliseconds": milliseconds,
    }


async def test_a_profile_that_nobody_set_up_fails_the_run_and_says_so(ground: Distilling) -> None:
    async with ground.workers({}):
        run = await ground.ended(await ground.end(await ground.organization("gone")))

    assert (run.state_name, run.attempts) == ("failed", 1)
    assert run.state_data["failure_reason"] == "unknown_model_profile"
    assert (
        run.state_data["error"] == "the organization's model_profile names no model that LOREBUS_MODELS has"
    )


async def test_a_trace_without_calls_is_not_shown_to_a_model(ground: Distilling) -> None:
    async with model_server() as server, ground.workers({"m": server.profile()}):
        scope = await ground.organization("m")
        runs = [
            await ground.ended(await ground.end(scope, task=task, trace=()))
            for task in ("", "  \n", "book a flight to Lisbon")
        ]

    assert [run.state_data["skipped_reason"] for run in runs] == ["no_lessons"] * 3
    assert server.asked == []


async def test_what_the_session_was_handed_is_not_shown_to_its_model(ground: Distilling) -> None:
    async with model_server() as server, ground.workers({"m": server.profile()}):
        scope, session = await ground.organization("m"), uuid4()
        [kept] = await filled_with(ground, scope, "Gold members fly with two bags.")
        async with ground.database.begin() as connection:
            await on_session_events(connection, [recalled(scope, [kept], session_uuid=session)])
        told = json.dumps({"memory": "Gold members fly with two bags.", "count": 1})
        trace = [
            ToolCallBody(tool="recall", output=told),
            ToolCallBody(tool="book", output="Error", is_error=True),
        ]
        await ground.ended(
            await ground.end(scope, session_uuid=session, task="Gold members fly with two bags.", trace=trace)
        )

    [asked] = server.asked
    assert "CALL" in asked.prompt
    assert "Gold members" not in asked.prompt


async def test_an_answer_that_is_unreadable_twice_fails_the_run_at_once(ground: Distilling) -> None:
    async with model_server(otherwise=says("I am sorry.")) as server, ground.workers({"m": server.profile()}):
        run = await ground.ended(await ground.end(await ground.organization("m")))

    assert (run.state_name, run.attempts, run.state_data["failure_reason"]) == (
        "failed",
        1,
        "unreadable_answer",
    )
    assert len(server.asked) == 2


async def test_a_model_in_trouble_is_asked_five_times_and_then_the_run_says_why(ground: Distilling) -> None:
    async with model_server(otherwise=fails(500)) as server, ground.workers({"m": server.profile()}):
        run = await ground.ended(await ground.end(await ground.organization("m")))

    assert (run.state_name, run.attempts, run.state_data["failure_reason"]) == ("failed", 5, "model_away")
    assert len(server.asked) == 5


async def test_a_model_that_recovers_is_asked_until_it_answers(ground: Distilling) -> None:
    script = (fails(500), fails(429), says(lessons("at last")))
    async with model_server(*script) as server, ground.workers({"m": server.profile()}):
        run = await ground.ended(await ground.end(await ground.organization("m")))

    assert (run.state_name, run.attempts) == ("completed", 3)
    assert "waiting_for" not in run.state_data
    assert [save.entries[0].text for save in await ground.saves()] == ["at last"]


async def test_retry_after_is_obeyed_by_the_run_that_heard_it_and_by_all_others(ground: Distilling) -> None:
    async with (
        model_server(fails(429, retry_after="100"), otherwise=says(lessons("x"))) as server,
        ground.workers({"m": server.profile(calls_at_once=1)}),
    ):
        first = await ground.end(await ground.organization("m"))
        await ground.waiting_for(first)
        second = await ground.end(await ground.organization("m"))
        run = await ground.waiting_for(second)

    assert len(server.asked) == 1
    assert run.state_data == {"waiting_for": "rate_limited"}
    due_at, since, attempts = await row_of(ground, first)
    assert timedelta(seconds=100) <= due_at - since <= timedelta(seconds=111)
    assert attempts == 1
    due_at, since, attempts = await row_of(ground, second)
    assert timedelta(seconds=80) <= due_at - since <= timedelta(seconds=111)
    assert attempts == 0


async def test_a_model_that_hangs_holds_its_own_sessions_only(ground: Distilling) -> None:
    async with (
        model_server(otherwise=hangs()) as hanging,
        model_server(otherwise=says(lessons("went on"))) as sound,
        ground.workers({"hanging": hanging.profile(), "sound": sound.profile()}, distill_concurrency=3),
    ):
        stuck = [await ground.end(await ground.organization("hanging")) for _ in range(6)]
        await hanging.until_asked(2)
        others = [
            await ground.end(await ground.organization(name)) for name in ("sound", None, "sound", None)
        ]
        runs = [await ground.ended(event) for event in others]
        # All the while the two that were asked about are in hand, and no more of them.
        assert (hanging.now, len(hanging.asked)) == (2, 2)

    assert {run.state_name for run in runs} == {"completed"}
    assert len(stuck) == 6


async def test_a_model_that_hangs_is_given_up_at_its_profiles_deadline(ground: Distilling) -> None:
    async with (
        model_server(otherwise=hangs()) as server,
        ground.workers({"m": server.profile(deadline_seconds=0.1)}),
    ):
        run = await ground.ended(await ground.end(await ground.organization("m")))

    assert (run.state_name, run.attempts, run.state_data["failure_reason"]) == ("failed", 5, "model_timeout")


async def test_a_run_is_held_for_as_long_as_its_own_model_may_take(ground: Distilling) -> None:
    async with (
        model_server(otherwise=hangs()) as server,
        ground.workers({"m": server.profile(deadline_seconds=900)}, distill_deadline_seconds=1.0),
    ):
        event = await ground.end(await ground.organization("m"))
        await server.until_asked(1)

        async def held() -> bool:
            due_at, _, _ = await row_of(ground, event)
            return due_at > datetime.now(UTC) + timedelta(seconds=900)

        await eventually(held, what="the lease covers the model's deadline")


async def test_over_budget_a_session_waits_for_the_next_day_without_an_attempt(ground: Distilling) -> None:
    async with (
        model_server(otherwise=says(lessons("x"))) as server,
        ground.workers({"m": server.profile()}, model_calls_per_day=2),
    ):
        scope = await ground.organization("m")
        for _ in range(2):
            await ground.ended(await ground.end(scope))
        third = await ground.end(scope)
        run = await ground.waiting_for(third)
        other = await ground.ended(await ground.end(await ground.organization("m")))

    assert run.state_data == {"waiting_for": "over_budget"}
    assert other.state_name == "completed"
    due_at, since, attempts = await row_of(ground, third)
    midnight = datetime.combine(since.astimezone(UTC).date() + timedelta(days=1), datetime.min.time(), UTC)
    assert timedelta(0) <= due_at - midnight <= timedelta(minutes=10)
    assert attempts == 0
    assert len(server.asked) == 3


async def test_tokens_use_up_the_budget_as_well(ground: Distilling) -> None:
    async with (
        model_server(otherwise=says(lessons("x"))) as server,
        ground.workers({"m": server.profile()}, model_tokens_per_day=740),
    ):
        scope = await ground.organization("m")
        await ground.ended(await ground.end(scope))
        run = await ground.waiting_for(await ground.end(scope))
    async with ground.database.read() as connection:
        used = await model_usage.of_day(connection, scope.organization_uuid, datetime.now(UTC).date())

    assert run.state_data == {"waiting_for": "over_budget"}
    assert used == (1, 700, 40)


async def test_a_session_that_waited_for_a_budget_for_days_is_skipped(ground: Distilling) -> None:
    async with (
        model_server() as server,
        ground.workers({"m": server.profile()}, model_calls_per_day=0),
    ):
        long_ago = datetime.now(UTC) - timedelta(days=3, hours=1)
        run = await ground.ended(await ground.end(await ground.organization("m"), occurred_at=long_ago))

    assert (run.state_name, run.state_data) == (
        "completed",
        {"lessons": 0, "skipped_reason": "over_budget"},
    )
    assert server.asked == []
