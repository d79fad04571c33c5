"""Distill workers in this process, with a provider of the test and a real PostgreSQL; no broker is there."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Self
from uuid import UUID

from pydantic import SecretStr

from lorebus_contracts.events import SaveRequested, SessionEnded
from lorebus_contracts.wire import parse
from lorebus_distill.handlers import on_session_ended
from lorebus_distill.settings import DistillSettings
from lorebus_distill.worker import DistillWorkers
from lorebus_domain.distilling import DistillInput, Lesson
from lorebus_kit.bus import BusProducer
from lorebus_kit.providers.port import Distilled, Provider, Transcript
from lorebus_kit.relay import Relay
from lorebus_kit.run_ids import distill_run_id
from lorebus_store import outbox
from lorebus_store.run_rows import Run
from tests.support.databases import ArrangedDatabase, execute, let_leases_run_out
from tests.support.events import Scope
from tests.support.memory import find_run
from tests.support.waiting import eventually

Answer = Callable[[DistillInput], Awaitable[tuple[Lesson, ...]]]


class FakeProvider:
    """Answers as the test says; remembers the tasks that it was asked about, and how many at once."""

    name = "fake-model"
    version = "7"
    deadline_seconds: float | None = None

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.tasks: list[str] = []
        self.at_once: list[tuple[str, ...]] = []
        self._now: list[str] = []

    def of(self, _profile_name: str | None) -> Provider:
        """Every organization's provider."""
        return self

    async def distil(
        self,
        session: DistillInput,
        *,
        organization_uuid: UUID,  # noqa: ARG002  # The fake is the same for everybody.
        transcript: Transcript | None = None,  # noqa: ARG002  # And says nothing on the way.
    ) -> Distilled:
        self.tasks.append(session.task)
        self._now.append(session.task)
        self.at_once.append(tuple(self._now))
        try:
            return Distilled(await self._answer(session), self.name, self.version)
        finally:
            self._now.remove(session.task)


def lesson(text: str) -> tuple[Lesson, ...]:
    return (Lesson(text, 0.5),)


class Distillery:
    """A database, and workers that are made and ended at will."""

    def __init__(self, url: str, database: ArrangedDatabase) -> None:
        self._url = url
        self._made: list[Working] = []
        self.database = database

    def workers(
        self,
        answer: Answer,
        *,
        deadline_seconds: float = 30.0,
        concurrency: int = 4,
        per_organization: int = 2,
    ) -> "Working":
        """Workers that have not begun; many may work on one database."""
        settings = DistillSettings(
            database_url=SecretStr(self._url),
            bootstrap_servers="127.0.0.1:1",
            distill_deadline_seconds=deadline_seconds,
            distill_concurrency=concurrency,
            distill_concurrency_per_organization=per_organization,
        )
        provider = FakeProvider(answer)
        relay = Relay(self.database, BusProducer("127.0.0.1:1"))
        self._made.append(Working(DistillWorkers(settings, self.database, relay, provider), provider))
        return self._made[-1]

    async def end_sessions(self, *events: SessionEnded) -> None:
        """Tell the consumer of these ends, in one batch."""
        async with self.database.begin() as connection:
            await on_session_ended(connection, events)

    async def run_of(self, event: SessionEnded) -> Run:
        """The session's distill as it is now."""
        scope = Scope(event.organization_uuid, event.agent_config_uuid)
        run = await find_run(self.database, scope, distill_run_id(event.session_uuid))
        assert run is not None
        return run

    async def ended(self, event: SessionEnded) -> Run:
        """The session's distill once it has ended, without the waits between its attempts."""

        async def terminal() -> Run | None:
            await self.lose_waits()
            run = await self.run_of(event)
            return run if run.state_name.is_terminal else None

        run = await eventually(terminal, what=f"the distill of {event.task!r} ends")
        assert run is not None
        return run

    async def lose_waits(self) -> None:
        """Make whatever waits for its next attempt due now."""
        await execute(
            self._url,
            "UPDATE lorebus.workflow_runs SET due_at = now() WHERE state_name = 'run' AND lease_token IS NULL",
        )
        for working in self._made:
            working.wake()

    async def lose_leases(self) -> None:
        """Let every lease run out now."""
        await let_leases_run_out(self._url)

    async def saves(self) -> list[SaveRequested]:
        """The saves that were asked for so far."""
        async with self.database.read() as connection:
            rows = await outbox.pending(connection, range(16), limit=1000)
        return [parse(SaveRequested, row.payload) for row in rows]


class Working:
    """Workers at work."""

    def __init__(self, workers: DistillWorkers, provider: FakeProvider) -> None:
        self._workers = workers
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.provider = provider

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._workers.run(self._stop))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=30)

    def wake(self) -> None:
        """Let them look at once."""
        self._workers.wake()

    async def die(self) -> None:
        """End as a killed process does: whatever runs is gone, and its lease stays."""
        dying = [*self._workers._running, *([self._task] if self._task else [])]
        for task in dying:
            task.cancel()
        await asyncio.gather(*dying, return_exceptions=True)
        self._task = None


@asynccontextmanager
async def distillery(url: str) -> AsyncIterator[Distillery]:
    """On this database."""
    database = ArrangedDatabase(url)
    try:
        yield Distillery(url, database)
    finally:
        await database.dispose()
