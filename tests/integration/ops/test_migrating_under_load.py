"""The newest migration runs beside the code of the release before it: saves and loads go on and none fails.

The statements below are what that release sends, written out, because the code beside this test is already the new one.
When a migration is added, they stay as they are for as long as the release before it sends them.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID, uuid4

import asyncpg
import pytest
from alembic.script import ScriptDirectory

from lorebus_store import migrate
from lorebus_store.errors import TransientError
from tests.support.services import until

ORGANIZATION: Final = UUID(int=1)
CONFIG: Final = UUID(int=2)
SAVERS: Final = 4
LOADERS: Final = 2
OLD_ENTRIES: Final = 20_000
# As every connection of a service has them.
TIMEOUTS: Final = {"lock_timeout": "3000", "statement_timeout": "20000", "jit": "off"}

SAVE: Final = """
    INSERT INTO lorebus.memories AS m (organization_uuid, id, agent_config_uuid, principal_ref, fingerprint_version,
        fingerprint, text, importance, terms, terms_version, origin)
    VALUES ($1, $2, $3, $4, 1, sha256($5::text::bytea), $5, 0.5, $5, 1, 'runner')
    ON CONFLICT ON CONSTRAINT memories_identity DO UPDATE SET reinforcement_count = m.reinforcement_count + 1
"""
COUNT: Final = """
    UPDATE lorebus.agent_configs SET entry_count = entry_count + 1
    WHERE organization_uuid = $1 AND agent_config_uuid = $2
"""
RUN: Final = """
    INSERT INTO lorebus.workflow_runs (organization_uuid, id, type, state_name, agent_config_uuid, finished_at)
    VALUES ($1, $2, 'agents.memory-save', 'completed', $3, now())
"""
EMIT: Final = """
    INSERT INTO lorebus.outbox (organization_uuid, shard, topic, key, payload, event_id)
    VALUES ($1, 0, 'memory.changed', 'key', 'payload', $2)
"""
LOAD: Final = """
    SELECT id, text, importance FROM lorebus.memories
    WHERE organization_uuid = $1 AND agent_config_uuid = $2 AND principal_ref = $3 AND state = 'active'
    ORDER BY principal_ref, created_at DESC, id DESC LIMIT 10
"""
RECORD: Final = """
    INSERT INTO lorebus.recalls (organization_uuid, recall_id, session_uuid, agent_config_uuid, caller_kind,
        requested_strategy, strategy, cue, top_k, budget_used_chars, entry_count, passed_over, occurred_at)
    VALUES ($1, $2, $2, $3, 'none', 'last_k', 'last_k', '', 10, 0, 0, '{}', now())
"""
MANY: Final = """
    INSERT INTO lorebus.memories (organization_uuid, id, agent_config_uuid, principal_ref, fingerprint_version,
        fingerprint, text, importance, terms, terms_version, origin)
    SELECT $1, gen_random_uuid(), $2, 'old', 1, sha256(n::text::bytea), 'old ' || n, 0.5, 'old', 1, 'runner'
    FROM generate_series(1, $3::int) AS n
"""


def revision_before_the_newest() -> str:
    scripts = ScriptDirectory.from_config(migrate._config())
    before = scripts.get_revision(migrate.head()).down_revision
    assert isinstance(before, str)
    return before


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url, server_settings=TIMEOUTS)
    try:
        yield connection
    finally:
        await connection.close()


@pytest.fixture
async def old_database_url(empty_database_url: str) -> str:
    await migrate.upgrade(empty_database_url, revision_before_the_newest())
    async with connected(empty_database_url) as conn:
        await conn.execute("INSERT INTO lorebus.organizations (organization_uuid) VALUES ($1)", ORGANIZATION)
        await conn.execute(
            "INSERT INTO lorebus.agent_configs (organization_uuid, agent_config_uuid) VALUES ($1, $2)",
            ORGANIZATION,
            CONFIG,
        )
        await conn.execute(MANY, ORGANIZATION, CONFIG, OLD_ENTRIES)
    return empty_database_url


async def save(conn: asyncpg.Connection) -> None:
    async with conn.transaction():
        await conn.execute(SAVE, ORGANIZATION, uuid4(), CONFIG, "new", uuid4().hex)
        await conn.execute(COUNT, ORGANIZATION, CONFIG)
        await conn.execute(RUN, ORGANIZATION, uuid4(), CONFIG)
        await conn.execute(EMIT, ORGANIZATION, uuid4())


async def load(conn: asyncpg.Connection) -> None:
    assert len(await conn.fetch(LOAD, ORGANIZATION, CONFIG, "old")) == 10
    await conn.execute(RECORD, ORGANIZATION, uuid4(), CONFIG)


class Load:
    """Savers and loaders that go on until told to stop, and how much each kind did."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = asyncio.Event()
        self.done = {"save": 0, "load": 0}

    async def run(self) -> None:
        kinds: list[tuple[str, Callable[[asyncpg.Connection], Awaitable[None]]]] = [
            *[("save", save)] * SAVERS,
            *[("load", load)] * LOADERS,
        ]
        async with asyncio.TaskGroup() as tasks:
            for kind, work in kinds:
                tasks.create_task(self._go_on(kind, work))

    async def more(self, work: "asyncio.Task[None]", number: int) -> None:
        """Wait until so many more saves and loads are done, or the load has failed."""
        wanted = {kind: count + number for kind, count in self.done.items()}
        await until(
            lambda: work.done() or all(self.done[kind] >= count for kind, count in wanted.items()),
            seconds=120,
            what=f"{number} more saves and loads",
        )

    def stop(self) -> None:
        self._stop.set()

    async def _go_on(self, kind: str, work: Callable[[asyncpg.Connection], Awaitable[None]]) -> None:
        async with connected(self._url) as conn:
            while not self._stop.is_set():
                await work(conn)
                self.done[kind] += 1


async def test_saves_and_loads_go_on_while_the_newest_migration_runs(old_database_url: str) -> None:
    load = Load(old_database_url)
    work = asyncio.create_task(load.run())
    await load.more(work, 50)

    await migrate.upgrade(old_database_url)

    await load.more(work, 50)
    load.stop()
    await work
    assert await migrate.current(old_database_url) == migrate.head()
    async with connected(old_database_url) as conn:
        counted = await conn.fetchrow(
            """
            SELECT (SELECT count(*) FROM lorebus.memories WHERE principal_ref = 'new'),
                (SELECT entry_count FROM lorebus.agent_configs), (SELECT count(*) FROM lorebus.outbox),
                (SELECT count(*) FROM lorebus.workflow_runs), (SELECT count(*) FROM lorebus.recalls)
            """
        )
    assert tuple(counted) == (*[load.done["save"]] * 4, load.done["load"])


async def test_a_migration_gives_up_where_a_table_is_held_and_changes_nothing(old_database_url: str) -> None:
    before = await migrate.current(old_database_url)
    async with connected(old_database_url) as conn, conn.transaction():
        tables = await conn.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'lorebus'")
        for (table,) in tables:
            await conn.execute(f"LOCK TABLE lorebus.{table} IN ACCESS SHARE MODE")

        with pytest.raises(TransientError):
            await migrate.upgrade(old_database_url)

        assert await migrate.current(old_database_url) == before
    await migrate.upgrade(old_database_url)
    assert await migrate.current(old_database_url) == migrate.head()
