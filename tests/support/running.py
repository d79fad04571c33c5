"""One consumer with everything of its own, for tests that stop it, kill it or start it again."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from tests.support.databases import ArrangedDatabase
from tests.support.events import Scope
from tests.support.memory import find_run
from tests.support.services import Service, services
from tests.support.waiting import eventually
from tests.support.wire import Wire


@dataclass(frozen=True, slots=True)
class Running:
    """The processes, and the database and the topics that they alone use."""

    services: tuple[Service, ...]
    database: ArrangedDatabase
    wire: Wire

    @property
    def service(self) -> Service:
        """The first of them."""
        return self.services[0]

    async def begin_again(self) -> None:
        """Start the first process once more, after it ended."""
        self.service.start()
        await self.service.ready()


@asynccontextmanager
async def running(
    *names: str,
    database_url: str,
    bootstrap_servers: str,
    topics: str,
    extra: Mapping[str, str] | None = None,
) -> AsyncIterator[Running]:
    """These services, ready."""
    database = ArrangedDatabase(database_url)
    try:
        async with (
            services(
                *names,
                database_url=database_url,
                bootstrap_servers=bootstrap_servers,
                topic_prefix=topics,
                extra=extra,
            ) as started,
            Wire(bootstrap_servers, topics) as wire,
        ):
            yield Running(started, database, wire)
    finally:
        await database.dispose()


async def kill_when_a_run_appears(running: Running, scope: Scope, run_id: UUID) -> None:
    """Kill the first process in the moment in which the run's row can be seen: most likely before it acknowledges."""
    await eventually(lambda: find_run(running.database, scope, run_id), what="the run appears")
    running.service.kill()
