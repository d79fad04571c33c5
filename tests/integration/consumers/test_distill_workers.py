"""The distill workers with a provider of the test: it fails, hangs, dies with its worker, or answers too late."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from lorebus_contracts.events import SessionEnded
from lorebus_domain.distilling import DistillInput, Lesson
from lorebus_kit.run_ids import distill_save_id
from lorebus_store.errors import PermanentError, TransientError
from tests.integration.consumers.distilling import Distillery, distillery, lesson
from tests.support.events import Scope, actor, ended
from tests.support.memory import find_run, known_scope
from tests.support.waiting import eventually, until


@pytest.fixture
async def ground(database_url: str) -> AsyncIterator[Distillery]:
    async with distillery(database_url) as made:
        yield made


async def some_lesson(session: DistillInput) -> tuple[Lesson, ...]:
    return lesson(f"learnt from {session.task}")


async def waiting_session(ground: Distillery, task: str = "book", scope: Scope | None = None) -> SessionEnded:
    """A session that ended and waits for a worker."""
    event = ended(scope or await known_scope(ground.database), task=task, caller=actor("ann"))
    await ground.end_sessions(event)
    return event


async def test_lessons_become_one_save_in_the_name_of_the_sessions_caller(ground: Distillery) -> None:
    event = await waiting_session(ground)
    async with ground.workers(some_lesson):
        run = await ground.ended(event)
    (save,) = await ground.saves()
    assert run.state_data == {
        "save_workflow_id": str(save.event_id),
        "lessons": 1,
        "provider": "fake-model",
        "provider_version": "7",
    }
    assert save.event_id == distill_save_id(event.session_uuid)
    assert [entry.text for entry in save.entries] == ["learnt from book"]
    assert (save.principal_ref, save.session_uuid) == ("ann", event.session_uuid)
    assert save.provenance is not None
    assert save.provenance.distill_workflow_id == run.id
    accepted = await find_run(
        ground.database, Scope(event.organization_uuid, event.agent_config_uuid), save.event_id
    )
    assert accepted is not None
    assert accepted.state_name == "initiated"


async def test_a_session_with_nothing_in_it_completes_and_the_provider_is_not_asked(
    ground: Distillery,
) -> None:
    event = ended(await known_scope(ground.database), task="book a flight", trace=())
    await ground.end_sessions(event)
    async with ground.workers(some_lesson) as working:
        run = await ground.ended(event)
    assert run.state_data["skipped_reason"] == "no_lessons"
    assert working.provider.tasks == []
    assert await ground.saves() == []


async def test_a_provider_that_fails_in_passing_is_asked_five_times_and_then_the_run_says_why(
    ground: Distillery,
) -> None:
    async def overloaded(_session: DistillInput) -> tuple[Lesson, ...]:
        raise TransientError("the model is overloaded")

    event = await waiting_session(ground)
    async with ground.workers(overloaded) as working:
        run = await ground.ended(event)
    assert working.provider.tasks == ["book"] * 5
    assert (run.state_name, run.attempts) == ("failed", 5)
    failed_at = run.state_data["failed_at"]
    assert run.state_data == {
        "error": "the model is overloaded",
        "error_type": "TransientError",
        "failed_at": failed_at,
        "failed_at_state": "run",
        "failed_layer": "provider",
        "failed_step": "distil",
        "failure_reason": "provider_failed",
    }
    assert failed_at.endswith("+00:00")
    assert [step["state_name"] for step in run.history] == ["initiated", "run", "failed"]
    assert await ground.saves() == []


async def test_a_failed_distill_is_not_begun_again_when_the_end_is_told_again(ground: Distillery) -> None:
    async def refused(_session: DistillInput) -> tuple[Lesson, ...]:
        raise PermanentError("the model refuses this session")

    event = await waiting_session(ground)
    async with ground.workers(refused) as working:
        failed = await ground.ended(event)
        await ground.end_sessions(event, event.model_copy(update={"event_id": uuid4()}))
        assert await ground.run_of(event) == failed
    assert working.provider.tasks == ["book"]
    assert (failed.attempts, failed.state_data["error_type"]) == (1, "PermanentError")


async def test_a_provider_that_recovers_has_its_lessons_saved_once(ground: Distillery) -> None:
    answers = iter([TransientError("away"), TransientError("away"), None])

    async def recovering(session: DistillInput) -> tuple[Lesson, ...]:
        error = next(answers)
        if error is not None:
            raise error
        return await some_lesson(session)

    event = await waiting_session(ground)
    async with ground.workers(recovering):
        run = await ground.ended(event)
    assert (run.state_name, run.attempts) == ("completed", 3)
    assert len(await ground.saves()) == 1


async def test_a_provider_that_hangs_is_given_up_at_its_deadline_while_other_sessions_go_on(
    ground: Distillery,
) -> None:
    async def hanging(session: DistillInput) -> tuple[Lesson, ...]:
        if session.task == "hang":
            await asyncio.Event().wait()
        return await some_lesson(session)

    scope = await known_scope(ground.database)
    hangs = await waiting_session(ground, "hang", scope)
    others = [await waiting_session(ground, f"task {number}", scope) for number in range(5)]
    async with ground.workers(hanging, deadline_seconds=0.5):
        for event in others:
            assert (await ground.ended(event)).state_name == "completed"
        run = await ground.ended(hangs)
    assert (run.state_name, run.attempts) == ("failed", 5)
    assert (run.state_data["error_type"], run.state_data["error"]) == (
        "TimeoutError",
        "the provider did not answer in time",
    )
    assert len(await ground.saves()) == 5


async def test_a_session_that_kills_its_worker_each_time_fails_after_five_and_no_other_is_touched(
    ground: Distillery,
) -> None:
    asked = asyncio.Event()

    async def deadly(session: DistillInput) -> tuple[Lesson, ...]:
        if session.task == "bomb":
            asked.set()
            await asyncio.Event().wait()
        return await some_lesson(session)

    bomb = await waiting_session(ground, "bomb")
    other = await waiting_session(ground, "harmless")
    calls = 0
    for _ in range(5):
        asked.clear()
        async with ground.workers(deadly) as working:
            await asyncio.wait_for(asked.wait(), 30)
            assert (await ground.run_of(bomb)).state_name == "run"
            await working.die()
            calls += working.provider.tasks.count("bomb")
        await ground.lose_leases()
    async with ground.workers(deadly) as working:
        run = await ground.ended(bomb)
        assert (await ground.ended(other)).state_name == "completed"
    assert (calls, working.provider.tasks.count("bomb")) == (5, 0)
    assert run.state_name == "failed"
    assert run.state_data["error"] == "given up after 5 attempts"
    assert run.state_data["failure_reason"] == "too_many_attempts"
    assert [save.session_uuid for save in await ground.saves()] == [other.session_uuid]


async def test_a_worker_killed_in_the_middle_is_followed_by_another_and_the_status_is_true_throughout(
    ground: Distillery,
) -> None:
    asked = asyncio.Event()

    async def never(_session: DistillInput) -> tuple[Lesson, ...]:
        asked.set()
        await asyncio.Event().wait()
        return ()

    event = await waiting_session(ground)
    async with ground.workers(never) as first:
        await asyncio.wait_for(asked.wait(), 30)
        await first.die()
    assert (await ground.run_of(event)).state_name == "run"
    await ground.lose_leases()
    async with ground.workers(some_lesson):
        run = await ground.ended(event)
    assert (run.state_name, run.attempts) == ("completed", 2)
    assert len(await ground.saves()) == 1


async def test_a_worker_that_lost_its_lease_changes_nothing_when_it_answers_at_last(
    ground: Distillery,
) -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def late(_session: DistillInput) -> tuple[Lesson, ...]:
        asked.set()
        await may_answer.wait()
        return lesson("too late")

    event = await waiting_session(ground)
    async with ground.workers(late) as first:
        await asyncio.wait_for(asked.wait(), 30)
        await ground.lose_leases()
        async with ground.workers(some_lesson):
            run = await ground.ended(event)
        may_answer.set()
        await until(lambda: not first._workers._running, what="the late worker is done")
    assert await ground.run_of(event) == run
    assert [entry.text for save in await ground.saves() for entry in save.entries] == ["learnt from book"]


@pytest.mark.parametrize("error", [TransientError("away"), PermanentError("no")])
async def test_a_worker_that_lost_its_lease_neither_fails_the_run_nor_gives_it_back(
    ground: Distillery, error: Exception
) -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def late(_session: DistillInput) -> tuple[Lesson, ...]:
        asked.set()
        await may_answer.wait()
        raise error

    event = await waiting_session(ground)
    async with ground.workers(late) as first:
        await asyncio.wait_for(asked.wait(), 30)
        await ground.lose_leases()
        async with ground.workers(some_lesson):
            run = await ground.ended(event)
        may_answer.set()
        await until(lambda: not first._workers._running, what="the late worker is done")
    assert await ground.run_of(event) == run
    assert run.state_name == "completed"


async def test_of_one_organization_no_more_than_its_share_is_distilled_at_once_by_all_workers(
    ground: Distillery,
) -> None:
    may_answer = asyncio.Event()

    async def slow(session: DistillInput) -> tuple[Lesson, ...]:
        await may_answer.wait()
        return await some_lesson(session)

    one, two = await known_scope(ground.database), await known_scope(ground.database)
    events = [await waiting_session(ground, f"one {number}", one) for number in range(5)]
    events += [await waiting_session(ground, f"two {number}", two) for number in range(2)]
    async with ground.workers(slow) as first, ground.workers(slow) as second:

        def working() -> list[str]:
            return [task for one in (first, second) if one.provider.at_once for task in one.provider.tasks]

        await until(lambda: len(working()) == 4, what="both organizations are worked for")
        assert sorted(task.split()[0] for task in working()) == ["one", "one", "two", "two"]
        may_answer.set()
        for event in events:
            assert (await ground.ended(event)).state_name == "completed"
    at_once = [tasks for one in (first, second) for tasks in one.provider.at_once]
    assert max(sum(task.startswith("one") for task in tasks) for tasks in at_once) <= 2


async def test_workers_that_are_stopped_let_what_they_have_begun_end(ground: Distillery) -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def slow(session: DistillInput) -> tuple[Lesson, ...]:
        asked.set()
        await may_answer.wait()
        return await some_lesson(session)

    event = await waiting_session(ground)
    async with ground.workers(slow) as working:
        await asyncio.wait_for(asked.wait(), 30)
        working._stop.set()
        may_answer.set()
    assert (await ground.run_of(event)).state_name == "completed"


async def test_the_consumer_is_never_held_by_a_model(ground: Distillery) -> None:
    async def never(_session: DistillInput) -> tuple[Lesson, ...]:
        await asyncio.Event().wait()
        return ()

    async with ground.workers(never, concurrency=2) as working:
        events = [await waiting_session(ground, f"task {number}") for number in range(20)]

        async def all_begun() -> bool:
            return all([(await ground.run_of(event)).state_name == "run" for event in events])

        await eventually(all_begun, what="every end is taken")
        await working.die()
