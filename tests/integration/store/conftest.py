"""A store with one known organization and agent config."""

from collections.abc import AsyncIterator

import pytest

from lorebus_domain.visibility import MemoryScope
from lorebus_store import settings
from tests.integration.store.builders import CONFIG, ORGANIZATION, StoreDatabase


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[StoreDatabase]:
    database = StoreDatabase(database_url)
    async with database.begin() as conn:
        await settings.put_organization(conn, ORGANIZATION)
        await settings.put_agent_config(conn, ORGANIZATION, CONFIG)
    try:
        yield database
    finally:
        await database.dispose()


@pytest.fixture
def shared() -> MemoryScope:
    return MemoryScope(ORGANIZATION, CONFIG, None)


@pytest.fixture
def alice() -> MemoryScope:
    return MemoryScope(ORGANIZATION, CONFIG, "alice")
