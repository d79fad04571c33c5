"""What tests put into the store beforehand, and what they look at afterwards."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from lorebus_contracts.events import EntryBody, RecallRecorded, SessionEnded
from lorebus_contracts.workflows import State
from lorebus_domain import policy
from lorebus_save.handlers import on_save_requested
from lorebus_store import memories, runs, sessions, settings
from lorebus_store.memories import EntryDetails
from lorebus_store.run_rows import Run
from lorebus_store.sessions import LearntSession
from tests.support.databases import ArrangedDatabase
from tests.support.events import Scope, new_scope, save
from tests.support.waiting import eventually


async def known_scope(
    database: ArrangedDatabase,
    *,
    organization_enabled: bool = True,
    config_enabled: bool = True,
    write_enabled: bool = True,
    max_entries: int = 10_000,
    scope: Scope | None = None,
) -> Scope:
    """An organization and an agent config that have settings; fresh ones unless `scope` names them."""
    known = scope or new_scope()
    async with database.begin() as connection:
        await settings.put_organization(
            connection, known.organization_uuid, memory_enabled=organization_enabled
        )
        await settings.put_agent_config(
            connection,
            *known.pair,
            memory_enabled=config_enabled,
            memory_write_enabled=write_enabled,
            memory_max_entries=max_entries,
        )
    return known


async def entries_of(database: ArrangedDatabase, scope: Scope) -> tuple[EntryDetails, ...]:
    """All entries of an agent config, highest importance first."""
    async with database.read() as connection:
        return (await memories.list_page(connection, *scope.pair, page=1, per_page=100_000)).items


async def filled(
    database: ArrangedDatabase, scope: Scope, count: int, *, importances: Sequence[float] = (0.5,)
) -> list[UUID]:
    """Save so many entries in the shared pool through the save handler; their ids, in the order of the request."""
    entries = [
        EntryBody(text=f"lesson {number}", importance=importances[number % len(importances)])
        for number in range(count)
    ]
    for start in range(0, count, policy.MAX_ENTRIES_PER_SAVE):
        event = save(scope, *entries[start : start + policy.MAX_ENTRIES_PER_SAVE])
        async with database.begin() as connection:
            await on_save_requested(connection, [event])
    by_text = {entry.text: entry.id for entry in await entries_of(database, scope)}
    return [by_text[entry.text] for entry in entries]


async def access_counts(database: ArrangedDatabase, scope: Scope) -> dict[UUID, int]:
    """How often each entry was handed out."""
    return {entry.id: entry.access_count for entry in await entries_of(database, scope)}


async def counter_of(database: ArrangedDatabase, scope: Scope) -> int:
    """How many entries the agent config's own counter says it holds."""
    async with database.read() as connection:
        config = await settings.get_agent_config(connection, *scope.pair)
    assert config is not None
    return config.entry_count


async def find_run(database: ArrangedDatabase, scope: Scope, run_id: UUID) -> Run | None:
    """The run as it is now."""
    async with database.read() as connection:
        return await runs.get_run(connection, scope.organization_uuid, run_id)


async def ended_run(database: ArrangedDatabase, scope: Scope, run_id: UUID) -> Run:
    """The run once it has ended."""

    async def terminal() -> Run | None:
        run = await find_run(database, scope, run_id)
        return run if run is not None and State(run.state_name).is_terminal else None

    run = await eventually(terminal, what=f"run {run_id} ends")
    assert run is not None
    return run


async def outputs_of(
    database: ArrangedDatabase, scope: Scope, run_ids: Sequence[UUID]
) -> list[dict[str, Any]]:
    """What each of these runs put out, once all have ended."""
    return [dict((await ended_run(database, scope, run_id)).state_data) for run_id in run_ids]


async def know_session(
    database: ArrangedDatabase, event: SessionEnded | RecallRecorded, *, registered: bool
) -> None:
    """Make a session known as the event tells it: registered by its runtime, or learnt from another event."""
    key = (event.organization_uuid, event.session_uuid, event.agent_config_uuid)
    kind, ref = event.caller.kind.value, event.caller.principal_ref()
    async with database.begin() as connection:
        if not registered:
            await sessions.learn(connection, [LearntSession(*key, caller_kind=kind, principal_ref=ref)])
            return
        await sessions.register(
            connection,
            organization_uuid=key[0],
            session_uuid=key[1],
            agent_config_uuid=key[2],
            caller_kind=kind,
            principal_ref=ref,
            task=None,
        )
