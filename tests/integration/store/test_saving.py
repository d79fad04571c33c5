"""Saving entries: each text once in its scope, each save counted once."""

import asyncio
import random

import pytest
from uuid6 import uuid7

from lorebus_domain.saving import Entry, FoldedEntry, fold, plan_save
from lorebus_domain.visibility import MemoryScope
from lorebus_store import memories
from lorebus_store.errors import PermanentError
from lorebus_store.memories import EntrySource
from tests.integration.store.builders import (
    CONFIG,
    NOON,
    ORGANIZATION,
    OTHER_ORGANIZATION,
    PAIR,
    SESSION,
    StoreDatabase,
    entry_count,
    folded,
    save,
    stored_texts,
    value,
)


async def test_a_new_entry_is_kept_with_everything_that_is_known_of_it(
    database: StoreDatabase, alice: MemoryScope
) -> None:
    source = EntrySource("distill", SESSION, '{"provider": "rules", "version": "1"}')
    async with database.begin() as conn:
        (saved,) = await save(conn, folded(alice, "Check the Backup."), at=NOON, source=source)
    async with database.read() as conn:
        entry = await memories.get_entry(conn, ORGANIZATION, saved.memory_id)
        terms = await value(conn, "SELECT terms FROM lorebus.memories")
    assert saved.inserted
    assert entry == memories.EntryDetails(
        id=saved.memory_id,
        agent_config_uuid=CONFIG,
        principal_ref="alice",
        text="Check the Backup.",
        fingerprint=bytes.fromhex("7bf28b79234f4bd2c7deedc7728f3f469cb3a9c4f50c4af5c0266218cb5fea3f"),
        importance=0.5,
        reinforcement_count=0,
        access_count=0,
        origin="distill",
        session_uuid=SESSION,
        provenance={"provider": "rules", "version": "1"},
        created_at=NOON,
        updated_at=NOON,
        last_accessed_at=None,
        state="active",
        quarantine_reason=None,
        echo_count=0,
    )
    assert terms == "check backu"


async def test_a_text_that_is_there_is_reinforced_and_keeps_the_higher_importance(
    database: StoreDatabase, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        (first,) = await save(conn, folded(shared, "Use UTC", importance=0.9))
        (second,) = await save(conn, folded(shared, " use  utc. ", importance=0.4))
        (third,) = await save(conn, folded(shared, "USE UTC", "use utc", importance=1.0))
    async with database.read() as conn:
        entry = await memories.get_entry(conn, ORGANIZATION, first.memory_id)
    assert (first.inserted, second.inserted, third.inserted) == (True, False, False)
    assert first.memory_id == second.memory_id == third.memory_id
    assert entry is not None
    assert (entry.text, entry.importance, entry.reinforcement_count) == ("Use UTC", 1.0, 3)
    assert await entry_count(database) == 1


async def test_a_text_twice_in_one_request_is_one_save_and_one_reinforcement(
    database: StoreDatabase, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        (saved,) = await save(conn, folded(shared, "Use UTC", "use utc"))
    async with database.read() as conn:
        count = await value(conn, "SELECT reinforcement_count FROM lorebus.memories")
    assert (saved.inserted, count) == (True, 1)


async def test_each_scope_keeps_an_entry_of_its_own(database: StoreDatabase, shared: MemoryScope) -> None:
    scopes = [
        shared,
        MemoryScope(ORGANIZATION, CONFIG, "alice"),
        MemoryScope(ORGANIZATION, CONFIG, "Alice"),
        MemoryScope(ORGANIZATION, CONFIG, " "),
        MemoryScope(ORGANIZATION, OTHER_ORGANIZATION, None),
        MemoryScope(OTHER_ORGANIZATION, CONFIG, None),
    ]
    entries = fold((scope, entry) for scope in scopes for entry in plan_save([Entry("Use UTC", 0.5)]).kept)
    async with database.begin() as conn:
        first = await save(conn, entries)
        again = await save(conn, entries)
    assert [row.inserted for row in first] == [True] * 6
    assert [row.inserted for row in again] == [False] * 6
    assert [row.scope for row in first] == [entry.scope for entry in entries]


async def test_the_shared_pool_is_one_scope_though_it_has_no_principal(
    database: StoreDatabase, shared: MemoryScope
) -> None:
    for _ in range(3):
        async with database.begin() as conn:
            await save(conn, folded(shared, "Use UTC"))
    assert await stored_texts(database) == ["Use UTC"]


@pytest.mark.parametrize("importance", [float("nan"), float("inf"), -0.01, 1.01])
async def test_an_importance_that_is_none_is_refused_by_the_table_as_well(
    database: StoreDatabase, shared: MemoryScope, importance: float
) -> None:
    entry = FoldedEntry(
        scope=shared, fingerprint=bytes(32), text="x", importance=importance, occurrences=1, terms=("x",)
    )

    async def save_it() -> None:
        async with database.begin() as conn:
            await save(conn, [entry])

    with pytest.raises(PermanentError) as refused:
        await save_it()
    assert refused.value.constraint == "memories_importance_in_range"


async def test_a_principal_without_a_name_is_refused(database: StoreDatabase) -> None:
    async def save_it() -> None:
        async with database.begin() as conn:
            await save(conn, folded(MemoryScope(ORGANIZATION, CONFIG, ""), "x"))

    with pytest.raises(PermanentError) as refused:
        await save_it()
    assert refused.value.constraint == "memories_principal_is_named"


async def test_fifty_saves_of_one_sentence_at_once_are_one_row(
    database: StoreDatabase, shared: MemoryScope
) -> None:
    async def save_it() -> bool:
        async with database.begin() as conn:
            (row,) = await save(conn, folded(shared, "Use UTC"))
        return row.inserted

    inserted = await asyncio.gather(*(save_it() for _ in range(50)))
    async with database.read() as conn:
        count = await value(conn, "SELECT sum(reinforcement_count) FROM lorebus.memories")
    assert (sum(inserted), count, await entry_count(database)) == (1, 49, 1)


async def test_eight_savers_over_the_same_texts_never_deadlock_and_count_exactly(
    database: StoreDatabase,
) -> None:
    scopes = [MemoryScope(ORGANIZATION, CONFIG, ref) for ref in (None, "alice", "bob")]
    texts = [f"fact number {number}" for number in range(40)]
    ids = {}

    async def saver(seed: int) -> int:
        chosen = random.Random(seed)
        inserted = 0
        for _ in range(12):
            kept = [
                (chosen.choice(scopes), entry)
                for text in chosen.sample(texts, 20)
                for entry in plan_save([Entry(text, chosen.random() * 0.9 + 0.1)]).kept
            ]
            async with database.begin() as conn:
                rows = await save(conn, fold(kept))
                ids.update({(row.scope, row.fingerprint): row.memory_id for row in rows})
                # What the labeller does meanwhile, over the same rows in an order of its own.
                handed_out = [row.memory_id for row in chosen.sample(rows, 5)]
            async with database.begin() as conn:
                await memories.count_accesses(
                    conn,
                    [memories.Access(ORGANIZATION, CONFIG, handed_out, NOON)],
                )
            inserted += sum(row.inserted for row in rows)
        return inserted

    inserted = sum(await asyncio.gather(*(saver(seed) for seed in range(8))))
    async with database.read() as conn:
        rows = await value(conn, "SELECT count(*) FROM lorebus.memories")
        saves = await value(conn, "SELECT sum(reinforcement_count + 1) FROM lorebus.memories")
        accesses = await value(conn, "SELECT sum(access_count) FROM lorebus.memories")
        deadlocks = await value(
            conn, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
    assert inserted == rows == len(ids) == await entry_count(database)
    assert (saves, accesses, deadlocks) == (8 * 12 * 20, 8 * 12 * 5, 0)


async def test_counters_say_when_a_config_passes_its_cap(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        (state,) = await memories.add_to_counters(conn, {PAIR: 10_001, (ORGANIZATION, ORGANIZATION): 5})
        assert await memories.add_to_counters(conn, {PAIR: 0}) == ()
        assert await memories.add_to_counters(conn, {}) == ()
    assert state == memories.CounterState(PAIR, entry_count=10_001, max_entries=10_000)


async def test_what_is_handed_out_is_counted_for_those_that_are_still_there(
    database: StoreDatabase, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        (saved,) = await save(conn, folded(shared, "Use UTC"))
        gone = uuid7()
        there = await memories.count_accesses(
            conn,
            [
                memories.Access(ORGANIZATION, CONFIG, [saved.memory_id] * 2, NOON),
                memories.Access(ORGANIZATION, CONFIG, [gone], NOON),
                memories.Access(OTHER_ORGANIZATION, CONFIG, [saved.memory_id] * 7, NOON),
                memories.Access(ORGANIZATION, CONFIG, [saved.memory_id], NOON.replace(hour=11)),
            ],
        )
        assert await memories.count_accesses(conn, []) == {}
    assert there == {ORGANIZATION: {saved.memory_id}, OTHER_ORGANIZATION: set()}
    async with database.read() as conn:
        entry = await memories.get_entry(conn, ORGANIZATION, saved.memory_id)
    assert entry is not None
    assert (entry.access_count, entry.last_accessed_at) == (3, NOON)
