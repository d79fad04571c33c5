"""Pruning: exactly the lowest go, beside saves too."""

import asyncio
import random
from datetime import timedelta

from lorebus_domain.visibility import MemoryScope
from lorebus_store import memories, pruning
from lorebus_store.statements import Statement
from tests.integration.store.builders import (
    CONFIG,
    NOON,
    ORGANIZATION,
    OTHER_ORGANIZATION,
    PAIR,
    StoreDatabase,
    backend_id,
    entry_count,
    eventually,
    folded,
    is_waiting_for_a_lock,
    plan,
    save,
    stored_texts,
    value,
)


async def fill(database: StoreDatabase, shared: MemoryScope, alice: MemoryScope) -> None:
    async with database.begin() as conn:
        await save(conn, folded(shared, "b low", importance=0.2), at=NOON)
        await save(conn, folded(alice, "a low and old", importance=0.2), at=NOON - timedelta(days=1))
        await save(conn, folded(alice, "d high", importance=0.9), at=NOON - timedelta(days=9))
        await save(conn, folded(shared, "c middle", importance=0.5), at=NOON)
        other = MemoryScope(OTHER_ORGANIZATION, CONFIG, None)
        await save(conn, folded(other, "e foreign", importance=0.1), at=NOON)


async def test_the_lowest_go_first_and_the_oldest_among_equals(
    database: StoreDatabase, shared: MemoryScope, alice: MemoryScope
) -> None:
    await fill(database, shared, alice)
    async with database.read() as conn:
        would = await memories.would_prune(conn, PAIR, keep=1, limit=2)
    async with database.begin() as conn:
        deleted = await memories.prune_lowest(conn, PAIR, keep=1, chunk=2)
    assert [entry.text for entry in would.first] == ["a low and old", "b low"]
    assert (would.excess, would.remaining) == (3, 1)
    assert deleted[:2] == tuple(entry.id for entry in would.first)
    assert len(deleted) == 3
    assert await stored_texts(database) == ["d high", "e foreign"]
    assert await entry_count(database) == 1


async def test_a_prune_to_what_is_there_deletes_nothing(
    database: StoreDatabase, shared: MemoryScope, alice: MemoryScope
) -> None:
    await fill(database, shared, alice)
    async with database.begin() as conn:
        assert await memories.prune_lowest(conn, PAIR, keep=4, chunk=1_000) == ()
        assert await memories.prune_lowest(conn, PAIR, keep=9, chunk=1_000) == ()
        assert await memories.would_prune(conn, PAIR, keep=4, limit=5) == (0, 4, ())
    assert await entry_count(database) == 4


async def test_a_prune_to_nothing_deletes_everything(
    database: StoreDatabase, shared: MemoryScope, alice: MemoryScope
) -> None:
    await fill(database, shared, alice)
    async with database.begin() as conn:
        assert len(await memories.prune_lowest(conn, PAIR, keep=0, chunk=3)) == 4
    assert await stored_texts(database) == ["e foreign"]
    assert await entry_count(database) == 0


async def test_entries_that_are_all_equal_go_by_their_ids(
    database: StoreDatabase, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        saved = await save(conn, folded(shared, *(f"entry {number}" for number in range(25))), at=NOON)
        deleted = await memories.prune_lowest(conn, PAIR, keep=4, chunk=5)
    assert deleted == tuple(sorted(row.memory_id for row in saved)[:21])


async def test_a_step_of_a_long_prune_may_be_bounded(database: StoreDatabase, shared: MemoryScope) -> None:
    async with database.begin() as conn:
        await save(conn, folded(shared, *(f"entry {number}" for number in range(10))), at=NOON)
    steps = []
    for _ in range(4):
        async with database.begin() as conn:
            steps.append(len(await memories.prune_lowest(conn, PAIR, keep=3, chunk=2, at_most=3)))
    assert steps == [3, 3, 1, 0]
    assert await entry_count(database) == 3


async def test_a_prune_waits_for_the_saves_that_are_under_way(
    database: StoreDatabase, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        await save(conn, folded(shared, "low", importance=0.1), at=NOON)

    async with database.begin() as saving:
        await save(saving, folded(shared, "high", importance=0.9), at=NOON)
        pids: list[int] = []

        async def prune() -> int:
            async with database.begin() as conn:
                pids.append(await backend_id(conn))
                return len(await memories.prune_lowest(conn, PAIR, keep=1, chunk=10))

        pruning_task = asyncio.create_task(prune())

        async def is_waiting() -> bool:
            return bool(pids) and await is_waiting_for_a_lock(database, pids[0])

        await eventually(is_waiting)
    assert await pruning_task == 1
    assert await stored_texts(database) == ["high"]


async def test_prunes_beside_saves_and_deletes_are_exact_and_never_deadlock(database: StoreDatabase) -> None:
    scopes = [MemoryScope(ORGANIZATION, CONFIG, ref) for ref in (None, "alice")]
    is_saving = True
    deleted_by_prune = 0

    async def saver(seed: int) -> int:
        chosen, inserted = random.Random(seed), 0
        for _ in range(15):
            texts = [f"fact {chosen.randrange(80)}" for _ in range(10)]
            async with database.begin() as conn:
                rows = await save(
                    conn, folded(chosen.choice(scopes), *texts, importance=chosen.random() * 0.9 + 0.1)
                )
            inserted += sum(row.inserted for row in rows)
        return inserted

    async def pruner() -> None:
        nonlocal deleted_by_prune
        while is_saving:
            async with database.begin() as conn:
                await memories.lock_config(conn, PAIR)
                before = await value(conn, "SELECT count(*) FROM lorebus.memories")
                deleted = await memories.prune_lowest(conn, PAIR, keep=20, chunk=7)
                assert len(deleted) == max(0, before - 20)
            deleted_by_prune += len(deleted)

    async def deleter() -> int:
        gone = 0
        while is_saving:
            async with database.begin() as conn:
                entry_id = await value(conn, "SELECT id FROM lorebus.memories ORDER BY random() LIMIT 1")
                if entry_id is not None:
                    gone += await memories.delete_entry(conn, ORGANIZATION, entry_id) is not None
        return gone

    others = [asyncio.create_task(pruner()), asyncio.create_task(deleter())]
    inserted = sum(await asyncio.gather(*(saver(seed) for seed in range(5))))
    is_saving = False
    _, deleted_by_hand = await asyncio.gather(*others)
    async with database.read() as conn:
        left = await value(conn, "SELECT count(*) FROM lorebus.memories")
        deadlocks = await value(
            conn, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
    assert inserted - deleted_by_prune - (deleted_by_hand or 0) == left == await entry_count(database)
    assert deadlocks == 0


async def test_a_prune_walks_one_index_from_its_end(database: StoreDatabase) -> None:
    statements: list[Statement] = [pruning._DELETE_LOWEST, pruning._DELETE_NEXT_LOWEST, pruning._LOWEST]
    async with database.read() as conn:
        plans = [await plan(conn, statement) for statement in statements]
    for lines in plans:
        assert "Index Scan Backward using memories_of_config" in lines or (
            "Index Only Scan Backward using memories_of_config" in lines
        )
        assert "Seq Scan" not in lines
