"""Older entries come into reach after `memory_pack_reach` became `all`."""

from lorebus_domain.recall import PackReach
from lorebus_domain.terms import packed, terms
from lorebus_domain.visibility import MemoryScope
from lorebus_store import reach, settings
from lorebus_store.acting import SystemRole
from lorebus_store.database import Connection
from lorebus_store.statements import Statement
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


async def test_entries_without_hashed_terms_get_them_and_come_into_no_reach_by_it(
    database: StoreDatabase, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        await save(conn, folded(shared, "Backups of the café", "Use UTC", "?!"))
        await run_sql(
            conn,
            "UPDATE lorebus.memories SET term_hashes = NULL WHERE organization_uuid = :o",
            o=ORGANIZATION,
        )
        await run_sql(
            conn,
            "UPDATE lorebus.agent_configs SET reach_pending = true WHERE organization_uuid = :o",
            o=ORGANIZATION,
        )
    steps = 0
    more = True
    while more:
        async with database.begin(SystemRole.HOUSEKEEPING) as conn:
            more = await reach.extend(conn, chunk=2)
        steps += more

    async with database.read() as conn:
        rows = await Statement("SELECT text, term_hashes FROM lorebus.memories").rows(conn)
        assert await in_reach(conn) == 0
    assert {row[0]: row[1] for row in rows} == {
        text: packed(terms(text)) for text in ("Backups of the café", "Use UTC", "?!")
    }
    assert steps == 2
