"""Older entries come into reach after `memory_pack_reach` became `all`."""

from lorebus_domain.recall import PackReach
from lorebus_domain.visibility import MemoryScope
from lorebus_store import reach, settings
from lorebus_store.database import Connection
from tests.integration.store.builders import (
    ORGANIZATION,
    OTHER_ORGANIZATION,
    PAIR,
    StoreDatabase,
    folded,
    run_sql,
    save,
    value,
)


async def in_reach(conn: Connection) -> int:
    count: int = await value(conn, "SELECT count(terms_vector) FROM lorebus.memories WHERE in_reach")
    return count


async def test_only_entries_of_a_config_that_reaches_all_are_indexed(
    database: StoreDatabase, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        await save(conn, folded(shared, "one", "two"))
        assert await in_reach(conn) == 0
        await settings.put_agent_config(conn, *PAIR, memory_pack_reach=PackReach.ALL)
        assert await in_reach(conn) == 2
        await save(conn, folded(shared, "three"))
        await save(conn, folded(MemoryScope(ORGANIZATION, OTHER_ORGANIZATION, None), "of another config"))
        assert await in_reach(conn) == 3
        await settings.put_agent_config(conn, *PAIR, memory_pack_reach=PackReach.RECENT)
        await save(conn, folded(shared, "four"))
        assert await in_reach(conn) == 3
        await settings.put_agent_config(conn, *PAIR, memory_pack_reach=PackReach.ALL)
        assert await in_reach(conn) == 4
        assert not await reach.extend(conn, chunk=10)


async def test_a_large_config_comes_into_reach_bit_by_bit(
    database: StoreDatabase, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        await save(conn, folded(shared, *(f"entry {number}" for number in range(10))))
        # As if it had more entries than are marked at once when the setting changes.
        await run_sql(
            conn, "UPDATE lorebus.agent_configs SET memory_pack_reach = 'all', reach_pending = true"
        )
    marked = []
    for _ in range(4):
        async with database.begin() as conn:
            assert await reach.extend(conn, chunk=4)
            marked.append(await in_reach(conn))
        if marked[-1] == 10:
            break
    async with database.begin() as conn:
        assert not await reach.extend(conn, chunk=4)
    assert marked == [4, 8, 10]


async def test_a_config_that_changed_its_mind_is_left_alone(
    database: StoreDatabase, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        await save(conn, folded(shared, "one"))
        await run_sql(conn, "UPDATE lorebus.agent_configs SET reach_pending = true")
        assert await reach.extend(conn, chunk=4)
        assert not await reach.extend(conn, chunk=4)
        assert await in_reach(conn) == 0
