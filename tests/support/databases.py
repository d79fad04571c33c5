"""Databases and topics that several tests of a module share."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg

from lorebus_kit.topics import apply_topics
from tests.support.output_searches import search_runs
from tests.support.outputs import OUTPUTS


@asynccontextmanager
async def fresh_database(server_url: str, *, template: str) -> AsyncIterator[str]:
    """The address of a database that is a copy of `template`, and is gone afterwards."""
    name = f"test_{uuid.uuid4().hex}"
    url = urlsplit(server_url)._replace(path=f"/{name}").geturl()
    await execute(server_url, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    try:
        yield url
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
    """Run one statement on a connection of its own."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement, *values)
    finally:
        await connection.close()
