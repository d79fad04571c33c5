"""One database and one set of topics a module: its tests keep apart by organizations of their own."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.support.databases import ArrangedDatabase, fresh_database, fresh_topics
from tests.support.wire import Wire


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_database_url(postgres_url: str, migrated_template: str) -> AsyncIterator[str]:
    """A migrated database of the module's own."""
    async with fresh_database(postgres_url, template=migrated_template) as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_topics(bootstrap_servers: str) -> str:
    """The prefix of topics of the module's own."""
    return await fresh_topics(bootstrap_servers)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database(shared_database_url: str) -> AsyncIterator[ArrangedDatabase]:
    """The module's database, as the tests ask it."""
    asked = ArrangedDatabase(shared_database_url)
    yield asked
    await asked.dispose()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def wire(bootstrap_servers: str, shared_topics: str) -> AsyncIterator[Wire]:
    """The module's topics, as the world outside uses them."""
    async with Wire(bootstrap_servers, shared_topics) as opened:
        yield opened
