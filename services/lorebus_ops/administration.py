"""What an operator does from a shell: migrate, make topics. Each gives the exit code."""

import asyncio
import sys
from collections.abc import Coroutine

from lorebus_kit.topics import apply_topics
from lorebus_ops.errors import EXIT_FAILED, UnknownKeyError
from lorebus_store.errors import StoreError
from lorebus_store.migrate import current, upgrade


def migrate(database_url: str) -> int:
    """Bring the database to the newest tables, and say where it is then."""
    return report(_migrate(database_url))


def make_topics(bootstrap_servers: str, *, partitions: int, replication_factor: int, prefix: str) -> int:
    """Make the topics that are not there yet."""
    return report(_make_topics(bootstrap_servers, partitions, replication_factor, prefix))


def report(work: Coroutine[None, None, str]) -> int:
    """Do the work and print what it says; should it not be done, say why in one line."""
    try:
        said = asyncio.run(work)
    except (StoreError, UnknownKeyError) as error:
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
