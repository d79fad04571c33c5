"""Databases and topics of tests: as services reach them, and as their owner does.

A test's `database_url` is that of a service's login, which row-level security holds. What a test arranges and looks at
past that, it does as the owner of the same database.
"""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Final
from urllib.parse import urlsplit

import asyncpg

from lorebus_kit.topics import apply_topics
from lorebus_store.acting import NOBODY, ActsFor
from lorebus_store.database import Connection, Database
from lorebus_store.logins import ensure_login
from lorebus_store.migrate import upgrade
from tests.support.output_searches import search_runs
from tests.support.outputs import OUTPUTS

SERVICE_LOGIN: Final = "lorebus_test_service"
_owners: dict[int | None, str] = {}
"""For each server's port, who its owner is, as `user:password`."""


class ArrangedDatabase(Database):
    """As services reach it; a transaction that acts for nobody by name is the owner's, for arranging and looking.

    What is tested says whom it acts for, and is held by row-level security.
    """

    def __init__(self, database_url: str, *, pool_size: int = 5) -> None:
        super().__init__(database_url, pool_size=pool_size, application_name="lorebus-tests")
        self._owners = Database(
            owner_of(database_url), pool_size=pool_size, application_name="lorebus-tests", as_owner=True
        )

    @asynccontextmanager
    async def begin(self, acts_for: ActsFor | None = None) -> AsyncIterator[Connection]:
        """A transaction."""
        begun = self._owners.begin(NOBODY) if acts_for is None else super().begin(acts_for)
        async with begun as connection:
            yield connection

    @asynccontextmanager
    async def read(self, acts_for: ActsFor | None = None) -> AsyncIterator[Connection]:
        """A transaction that writes nothing."""
        begun = self._owners.read(NOBODY) if acts_for is None else super().read(acts_for)
        async with begun as connection:
            yield connection

    async def dispose(self) -> None:
        """Close the connections of both."""
        await self._owners.dispose()
        await super().dispose()


def owner_of(url: str) -> str:
    """The same database as its owner reaches it; that of a server without services is its owner's already."""
    parts = urlsplit(url)
    own, _, address = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{_owners.get(parts.port, own)}@{address}").geturl()


def service_of(owner_url: str) -> str:
    """The same database as services reach it."""
    parts = urlsplit(owner_url)
    own, _, address = parts.netloc.rpartition("@")
    _owners[parts.port] = own
    return parts._replace(netloc=f"{SERVICE_LOGIN}:{_password(owner_url)}@{address}").geturl()


async def prepare(owner_url: str) -> str:
    """Migrate a database and let services in; where they reach it."""
    await upgrade(owner_url)
    service_url = service_of(owner_url)
    await ensure_login(owner_url, service_url)
    return service_url


def _password(owner_url: str) -> str:
    """The same in every process of a run: several may share a server."""
    return sha256(urlsplit(owner_url).netloc.encode()).hexdigest()


@asynccontextmanager
async def fresh_database(server_url: str, *, template: str) -> AsyncIterator[str]:
    """Where services reach a database that is a copy of `template`, and is gone afterwards."""
    name = f"test_{uuid.uuid4().hex}"
    url = urlsplit(server_url)._replace(path=f"/{name}").geturl()
    await execute(server_url, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    try:
        yield service_of(url)
        await search_runs(OUTPUTS, url)
    finally:
        await execute(server_url, f'DROP DATABASE "{name}" WITH (FORCE)')


@asynccontextmanager
async def database_away(url: str) -> AsyncIterator[None]:
    """The database takes nobody and has ended everybody, and comes back afterwards."""
    parts = urlsplit(url)
    server = parts._replace(path="/postgres").geturl()
    name = parts.path.removeprefix("/")
    await execute(server, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
    try:
        await execute(
            server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name
        )
        yield
    finally:
        await execute(server, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


async def let_leases_run_out(url: str) -> None:
    """Every lease on a distill ends now, as if its time had passed."""
    await execute(
        url,
        "UPDATE lorebus.workflow_runs SET due_at = now(), lease_until = now() WHERE lease_token IS NOT NULL",
    )


async def fresh_topics(bootstrap_servers: str, *, partitions: int = 2) -> str:
    """The prefix of topics that nobody else uses, dead letters included."""
    prefix = f"t{uuid.uuid4().hex[:12]}."
    await apply_topics(bootstrap_servers, prefix=prefix, partitions=partitions)
    return prefix


async def execute(url: str, statement: str, *values: str) -> None:
    """Run one statement as the owner, on a connection of its own."""
    connection = await asyncpg.connect(owner_of(url))
    try:
        await connection.execute(statement, *values)
    finally:
        await connection.close()
