from collections.abc import AsyncIterator
from uuid import UUID

import pytest
from sqlalchemy import text

from lorebus_domain.recall import PackReach
from lorebus_kit.reaching import Reaching
from lorebus_store import settings
from tests.support.databases import ArrangedDatabase

ORGANIZATION, CONFIG = UUID(int=1), UUID(int=2)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[ArrangedDatabase]:
    made = ArrangedDatabase(database_url, pool_size=2)
    yield made
    await made.dispose()


async def in_reach(database: ArrangedDatabase) -> int:
    async with database.read() as connection:
        count: int = (
            await connection.execute(text("SELECT count(*) FROM lorebus.memories WHERE in_reach"))
        ).scalar_one()
    return count


async def test_a_large_config_comes_into_reach_step_by_step(database: ArrangedDatabase) -> None:
    async with database.begin() as connection:
        await settings.put_organization(connection, ORGANIZATION)
        await settings.put_agent_config(connection, ORGANIZATION, CONFIG)
        await connection.execute(
            text(
                """
                INSERT INTO lorebus.memories (organization_uuid, id, agent_config_uuid, fingerprint_version,
                    fingerprint, text, importance, terms, terms_version, origin)
                SELECT :organization, gen_random_uuid(), :config, 1, sha256(int4send(i)), 'text', 0.5, 'text', 1,
                    'runner' FROM generate_series(1, 11500) AS i
                """
            ),
            {"organization": ORGANIZATION, "config": CONFIG},
        )
        await settings.put_agent_config(connection, ORGANIZATION, CONFIG, memory_pack_reach=PackReach.ALL)
    assert await in_reach(database) == 10_000
    reaching = Reaching(database)

    steps = 0
    while await reaching.step():
        steps += 1

    assert await in_reach(database) == 11_500
    assert steps == 2
