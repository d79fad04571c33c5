"""What an operator does from a shell: migrate, make topics, make keys. Each gives the exit code."""

import asyncio
import sys
from collections.abc import Coroutine
from uuid import UUID

from lorebus_kit.keys import create_key
from lorebus_kit.topics import apply_topics
from lorebus_ops.errors import EXIT_FAILED
from lorebus_store.database import Database
from lorebus_store.errors import StoreError
from lorebus_store.migrate import current, upgrade


def migrate(database_url: str) -> int:
    """Bring the database to the newest tables, and say where it is then."""
    return _report(_migrate(database_url))


def make_topics(bootstrap_servers: str, *, partitions: int, replication_factor: int, prefix: str) -> int:
    """Make the topics that are not there yet."""
    return _report(_make_topics(bootstrap_servers, partitions, replication_factor, prefix))


def create_api_key(database_url: str, organization_uuid: UUID, *, name: str) -> int:
    """Make a key for the organization, which becomes known if it was not, and print it."""
    return _report(_create_api_key(database_url, organization_uuid, name))


def _report(work: Coroutine[None, None, str]) -> int:
    try:
        said = asyncio.run(work)
    except StoreError as error:
        sys.stderr.write(f"lorebus: {error}\n")
        return EXIT_FAILED
    sys.stdout.write(f"{said}\n")
    return 0


async def _migrate(database_url: str) -> str:
    await upgrade(database_url)
    return f"the database is at revision {await current(database_url)}"


async def _make_topics(servers: str, partitions: int, replication_factor: int, prefix: str) -> str:
    await apply_topics(servers, partitions=partitions, replication_factor=replication_factor, prefix=prefix)
    return "the topics are there"


async def _create_api_key(database_url: str, organization_uuid: UUID, name: str) -> str:
    database = Database(database_url, pool_size=1, application_name="lorebus-keys")
    try:
        return await create_key(database, organization_uuid, name=name)
    finally:
        await database.dispose()
