"""The processes that the machine drives, and as whom they connect: the one place where that is said."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from tests.support.databases import execute
from tests.support.services import Service, services

SERVICES: Final = ("gateway", "save", "distill", "recall_labeller", "prune")
UNFILTERED: Final = ("tests.isolation.unfiltered",)
"""The launcher that takes the application's own conditions on the organization out of its statements."""


_LOWER: Final = """
DO $$ DECLARE found record; BEGIN
    FOR found IN SELECT tablename FROM pg_tables WHERE schemaname = 'lorebus' LOOP
        EXECUTE format('ALTER TABLE lorebus.%I DISABLE ROW LEVEL SECURITY', found.tablename);
    END LOOP;
END $$
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """A whole system."""

    gateway_url: str
    database_url: str
    bootstrap_servers: str
    topic_prefix: str


@asynccontextmanager
async def staged(
    *,
    database_url: str,
    bootstrap_servers: str,
    topic_prefix: str,
    launcher: Sequence[str] = (),
) -> AsyncIterator[Stage]:
    """All services on this database, each once."""
    async with services(
        *SERVICES,
        database_url=database_url,
        bootstrap_servers=bootstrap_servers,
        topic_prefix=topic_prefix,
        launcher=launcher,
    ) as started:
        yield Stage(_gateway(started).url, database_url, bootstrap_servers, topic_prefix)


def _gateway(started: Sequence[Service]) -> Service:
    return started[SERVICES.index("gateway")]


async def lower_policies(owner_url: str) -> None:
    """Switch row-level security off for every table, as whoever owns them may."""
    await execute(owner_url, _LOWER)
