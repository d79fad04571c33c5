"""`lorebus runs`: found, shown and retried, each refusal with its reason."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from lorebus_contracts.events import Event
from lorebus_contracts.topics import SAVE_GROUP, SAVE_REQUESTED
from lorebus_contracts.workflows import State, WorkflowType
from lorebus_kit.run_ids import distill_run_id
from lorebus_store import runs
from lorebus_store.erasures import Subject
from lorebus_store.run_rows import DEAD_LETTERED, Failure, Run
from tests.support.commands import Shell, shell
from tests.support.databases import ArrangedDatabase, execute
from tests.support.erased import erase
from tests.support.events import Scope, end_user, ended, prune, save
from tests.support.letters import leave_letter
from tests.support.memory import find_run, known_scope
from tests.support.wire import Wire


@dataclass(frozen=True, slots=True)
class Desk:
    """Where an operator sits, with an organization to look after."""

    shell: Shell
    wire: Wire
    database: ArrangedDatabase
    scope: Scope

    async def failed(
        self, kind: WorkflowType, run_id: UUID, event: Event, *, reason: str = DEAD_LETTERED
    ) -> None:
        """Leave a run that failed."""
        failure = Failure(
            "it broke", "PermanentError", datetime.now(UTC), State.RUN, "consumer", "run", reason
        )
        async with self.database.begin() as connection:
            await runs.fail(
                connection,
                organization_uuid=event.organization_uuid,
                run_id=run_id,
                run_type=kind,
                agent_config_uuid=event.agent_config_uuid,
                session_uuid=getattr(event, "session_uuid", None),
                created_at=event.occurred_at,
                failure=failure,
            )

    async def run(self, run_id: UUID) -> Run:
        """The run as it is now."""
        found = await find_run(self.database, self.scope, run_id)
        assert found is not None
        return found


@pytest.fixture
async def desk(database_url: str, bootstrap_servers: str, topics: str, tmp_path: Path) -> AsyncIterator[Desk]:
    database = ArrangedDatabase(database_url)
    there = shell(tmp_path, database_url=database_url, bootstrap_servers=bootstrap_servers, prefix=topics)
    async with Wire(bootstrap_servers, topics) as wire:
        yield Desk(there, wire, database, await known_scope(database))
    await database.dispose()


async def test_runs_are_found_by_type_state_organization_and_age(desk: Desk, database_url: str) -> None:
    one, old = save(desk.scope, "a"), save(desk.scope, "b")
    await desk.failed(WorkflowType.MEMORY_SAVE, one.event_id, one)
    await desk.failed(WorkflowType.MEMORY_SAVE, old.event_id, old)
    await execute(
        database_url,
        "UPDATE lorebus.workflow_runs SET updated_at = now() - interval '1 hour' WHERE id = CAST($1 AS text)::uuid",
        str(old.event_id),
    )

    async def found(*words: str) -> set[str]:
        answer = await desk.shell.lorebus("runs", "list", "--json", *words)
        return {run["id"] for run in answer.json["runs"]}

    both = {str(one.event_id), str(old.event_id)}
    assert await found("--type", "save", "--state", "failed") == both
    assert await found("--organization", str(desk.scope.organization_uuid)) == both
    assert await found("--older-than", "30min") == {str(old.event_id)}
    assert await found("--type", "distill") == set()
    assert await found("--organization", str(uuid4())) == set()


async def test_a_run_is_shown_with_its_history_and_an_unknown_one_is_exit_code_1(desk: Desk) -> None:
    event = save(desk.scope, "a lesson")
    await desk.failed(WorkflowType.MEMORY_SAVE, event.event_id, event)

    shown = await desk.shell.lorebus("runs", "show", str(event.event_id), "--json")
    unknown = await desk.shell.lorebus("runs", "show", str(uuid4()))

    assert (shown.json["state_name"], shown.json["state_data"]["error"]) == ("failed", "it broke")
    assert [step["state_name"] for step in shown.json["history"]] == ["initiated", "failed"]
    assert (unknown.code, unknown.output) == (1, "")


async def test_a_save_that_was_dead_lettered_is_retried_from_its_letter(desk: Desk) -> None:
    event = save(desk.scope, "a lesson")
    await desk.failed(WorkflowType.MEMORY_SAVE, event.event_id, event)
    await leave_letter(desk.wire, event, SAVE_GROUP)

    dry = await desk.shell.lorebus("runs", "retry", str(event.event_id), "--dry-run")
    nothing_yet = await desk.wire.read(SAVE_REQUESTED.name)
    done = await desk.shell.lorebus("runs", "retry", str(event.event_id), "--json")

    (sent,) = await desk.wire.read(SAVE_REQUESTED.name)
    waiting = await desk.shell.lorebus("dlq", "list", "--json")
    assert (dry.code, done.code, nothing_yet) == (0, 0, [])
    assert sent.value == event.model_dump_json().encode()
    assert waiting.json["letters"] == []


async def test_a_distill_that_a_model_failed_is_made_due_again_with_its_event(desk: Desk) -> None:
    event = ended(desk.scope)
    run_id = distill_run_id(event.session_uuid)
    await desk.failed(WorkflowType.MEMORY_DISTILL, run_id, event, reason="unreadable_answer")
    await desk.wire.send(event)

    answer = await desk.shell.lorebus("runs", "retry", str(run_id))

    run = await desk.run(run_id)
    assert (answer.code, run.state_name, run.state_data, run.attempts) == (0, State.RUN, {}, 0)
    assert [step["state_name"] for step in run.history] == ["initiated", "failed", "run"]
    assert len(await desk.wire.read("session.ended")) == 1


async def test_a_run_is_not_retried_without_its_event_or_where_that_would_do_more_than_it_did(
    desk: Desk,
) -> None:
    gone, to_a_number = save(desk.scope, "a lesson"), prune(desk.scope, 3)
    await desk.failed(WorkflowType.MEMORY_SAVE, gone.event_id, gone)
    await desk.failed(WorkflowType.MEMORY_PRUNE, to_a_number.event_id, to_a_number)
    await desk.wire.send(to_a_number)

    without = await desk.shell.lorebus("runs", "retry", str(gone.event_id))
    too_much = await desk.shell.lorebus("runs", "retry", str(to_a_number.event_id))

    assert (without.code, too_much.code) == (1, 1)
    assert "the event of this run is no longer on the bus" in without.errors
    assert "it would also take what was saved since" in too_much.errors


async def test_a_run_of_somebody_who_was_erased_is_not_retried_and_nothing_of_it_is_sent(desk: Desk) -> None:
    event = save(desk.scope, "ann's cat is called Schnurri", caller=end_user("ann"))
    await desk.failed(WorkflowType.MEMORY_SAVE, event.event_id, event)
    await leave_letter(desk.wire, event, SAVE_GROUP)
    await erase(desk.database, desk.scope.organization_uuid, Subject.principal("ann"))

    answer = await desk.shell.lorebus("runs", "retry", str(event.event_id))

    assert (answer.code, answer.output) == (1, "")
    assert "whom this run is about was erased" in answer.errors
    assert await desk.wire.read(SAVE_REQUESTED.name) == []
    assert (await desk.run(event.event_id)).state_name == State.FAILED


async def test_a_distill_of_a_session_that_was_erased_is_not_made_due_again(desk: Desk) -> None:
    event = ended(desk.scope)
    run_id = distill_run_id(event.session_uuid)
    await desk.failed(WorkflowType.MEMORY_DISTILL, run_id, event, reason="unreadable_answer")
    await desk.wire.send(event)
    await erase(desk.database, desk.scope.organization_uuid, Subject.session(event.session_uuid))

    answer = await desk.shell.lorebus("runs", "retry", str(run_id))

    assert (answer.code, answer.output) == (1, "")
    assert "was erased" in answer.errors
    assert (await desk.run(run_id)).state_name == State.FAILED
