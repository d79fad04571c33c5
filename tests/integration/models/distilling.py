"""Distill workers in this process that ask the test's own endpoints, on a real PostgreSQL; no broker is there."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from uuid import uuid4

from pydantic import SecretStr

from lorebus_contracts.events import SaveRequested, SessionEnded
from lorebus_contracts.wire import parse
from lorebus_distill.handlers import on_session_ended
from lorebus_distill.settings import DistillSettings
from lorebus_distill.worker import DistillWorkers
from lorebus_kit.bus import BusProducer
from lorebus_kit.providers.directory import Providers
from lorebus_kit.providers.usage import StoredUsage
from lorebus_kit.relay import Relay
from lorebus_kit.run_ids import distill_run_id
from lorebus_store import outbox, settings
from lorebus_store.run_rows import Run
from tests.support.databases import ArrangedDatabase
from tests.support.events import Scope, ended, new_scope
from tests.support.memory import ended_run, find_run, known_scope
from tests.support.waiting import eventually

NO_BROKER = "127.0.0.1:1"


class Distilling:
    """A database with organizations that name models, and workers that ask them."""

    def __init__(self, url: str, database: ArrangedDatabase) -> None:
        self._url = url
        self.database = database

    async def organization(self, profile: str | None) -> Scope:
        """A scope whose organization names this profile."""
        scope = await known_scope(self.database, scope=new_scope())
        async with self.database.begin() as connection:
            await settings.put_organization(connection, scope.organization_uuid, model_profile=profile)
        return scope

    async def end(self, scope: Scope, **more: object) -> SessionEnded:
        """A session of this scope that ended and waits for a worker."""
        event = ended(scope, **{"session_uuid": uuid4(), **more})  # type: ignore[arg-type]  # Passed on as given.
        async with self.database.begin() as connection:
            await on_session_ended(connection, [event])
        return event

    @asynccontextmanager
    async def workers(self, models: Mapping[str, object], **more: object) -> AsyncIterator[None]:
        """Workers at work."""
        made = DistillSettings.model_validate(
            {
                "database_url": SecretStr(self._url),
                "bootstrap_servers": NO_BROKER,
                "models": models,
                "distill_retry_seconds": 0.02,
                **more,
            }
        )
        providers = Providers(made.models, StoredUsage(self.database, made))
        workers = DistillWorkers(made, self.database, Relay(self.database, BusProducer(NO_BROKER)), providers)
        stop = asyncio.Event()
        running = asyncio.create_task(workers.run(stop))
        try:
            yield
        finally:
            stop.set()
            for task in workers._running:
                task.cancel()
            await asyncio.wait({running}, timeout=30)
            await providers.close()

    async def ended(self, event: SessionEnded) -> Run:
        """The session's distill once it has ended."""
        scope = Scope(event.organization_uuid, event.agent_config_uuid)
        return await ended_run(self.database, scope, distill_run_id(event.session_uuid))

    async def waiting_for(self, event: SessionEnded) -> Run:
        """The session's distill once it says what it waits for."""

        async def waits() -> Run | None:
            scope = Scope(event.organization_uuid, event.agent_config_uuid)
            run = await find_run(self.database, scope, distill_run_id(event.session_uuid))
            return run if run is not None and "waiting_for" in run.state_data else None

        run = await eventually(waits, what="the distill waits")
        assert run is not None
        return run

    async def saves(self) -> list[SaveRequested]:
        """The saves that were asked for so far."""
        async with self.database.read() as connection:
            rows = await outbox.pending(connection, range(16), limit=1000)
        return [parse(SaveRequested, row.payload) for row in rows]


@asynccontextmanager
async def distilling(url: str) -> AsyncIterator[Distilling]:
    """On this database."""
    database = ArrangedDatabase(url)
    try:
        yield Distilling(url, database)
    finally:
        await database.dispose()
