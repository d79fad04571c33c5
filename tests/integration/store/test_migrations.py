"""The migrations, and the tables as the code sees them."""

import asyncio
from typing import Any

import asyncpg
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine

from lorebus_domain import policy
from lorebus_domain.recall import PackReach, Strategy
from lorebus_store import migrate, settings, tables
from lorebus_store.database import async_url
from tests.integration.store.builders import CONFIG, ORGANIZATION, StoreDatabase
from tests.support.databases import owner_of


def differences(connection: Connection) -> list[Any]:
    context = MigrationContext.configure(connection, opts=tables.COMPARED)
    return list(compare_metadata(context, tables.metadata))


async def compared(url: str) -> list[Any]:
    # A user who is called as the schema is would have it as its default, which goes by no name.
    elsewhere = {"server_settings": {"search_path": "public"}}
    engine = create_async_engine(async_url(url), connect_args=elsewhere)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(differences)
    finally:
        await engine.dispose()


async def test_the_migrated_tables_are_those_that_the_code_sees(database_url: str) -> None:
    assert await compared(database_url) == []


async def test_a_table_that_differs_would_be_noticed(owner_url: str) -> None:
    connection = await asyncpg.connect(owner_url)
    await connection.execute("DROP INDEX lorebus.memories_newest")
    await connection.execute("ALTER TABLE lorebus.outbox ALTER COLUMN key DROP NOT NULL")
    await connection.close()
    assert len(await compared(owner_url)) == 2


async def test_two_migrations_at_once_are_one(empty_database_url: str) -> None:
    assert await migrate.current(empty_database_url) is None
    await asyncio.gather(*(migrate.upgrade(empty_database_url) for _ in range(3)))
    assert await migrate.current(empty_database_url) == migrate.head()


async def test_every_index_says_which_query_it_serves(database_url: str) -> None:
    connection = await asyncpg.connect(owner_of(database_url))
    silent = await connection.fetch(
        """
        SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE c.relnamespace = 'lorebus'::regnamespace AND NOT i.indisprimary
            AND obj_description(c.oid, 'pg_class') IS NULL
        """
    )
    await connection.close()
    assert [row[0] for row in silent] == []


async def test_a_new_config_has_the_settings_of_the_product(database: StoreDatabase) -> None:
    async with database.read() as conn:
        config = await settings.get_agent_config(conn, ORGANIZATION, CONFIG)
    assert config == settings.ConfigSettings(
        memory_enabled=True,
        memory_write_enabled=True,
        memory_strategy=Strategy.LAST_K,
        memory_top_k=10,
        memory_max_entries=10_000,
        memory_pack_reach=PackReach.RECENT,
        entry_count=0,
    )
    assert (policy.TOP_K_DEFAULT, policy.DEFAULT_MAX_ENTRIES) == (10, 10_000)
