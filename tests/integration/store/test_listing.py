"""Listing and deleting entries, as a person does."""

from datetime import timedelta

from lorebus_domain.visibility import MemoryScope
from lorebus_store import memories
from lorebus_store.database import Database
from tests.integration.store.builders import (
    CONFIG,
    NOON,
    ORGANIZATION,
    OTHER_ORGANIZATION,
    entry_count,
    folded,
    save,
    stored_texts,
)


async def test_pages_of_entries_that_are_all_equal_hold_each_of_them_once(
    database: Database, shared: MemoryScope, alice: MemoryScope
) -> None:
    async with database.begin() as conn:
        await save(conn, folded(shared, *(f"pool {number}" for number in range(105))), at=NOON)
        await save(conn, folded(alice, *(f"own {number}" for number in range(100))), at=NOON)
    async with database.read() as conn:
        pages = [
            await memories.list_page(conn, ORGANIZATION, CONFIG, page=page, per_page=100)
            for page in (1, 2, 3, 4)
        ]
    ids = [entry.id for page in pages for entry in page.items]
    assert [len(page.items) for page in pages] == [100, 100, 5, 0]
    assert [page.total for page in pages] == [205, 205, 205, 205]
    assert len(set(ids)) == 205
    assert ids == sorted(ids, reverse=True)


async def test_a_listing_is_by_importance_then_age_and_can_leave_the_low_ones_out(
    database: Database, shared: MemoryScope, alice: MemoryScope
) -> None:
    async with database.begin() as conn:
        await save(conn, folded(shared, "low", importance=0.2), at=NOON)
        await save(conn, folded(shared, "high and old", importance=0.8), at=NOON - timedelta(days=1))
        await save(conn, folded(alice, "high", importance=0.8), at=NOON)
        await save(conn, folded(alice, "just so", importance=0.5), at=NOON)
    async with database.read() as conn:
        everything = await memories.list_page(conn, ORGANIZATION, CONFIG, page=1, per_page=20)
        important = await memories.list_page(
            conn, ORGANIZATION, CONFIG, min_importance=0.5, page=2, per_page=2
        )
        foreign = await memories.list_page(conn, OTHER_ORGANIZATION, CONFIG, page=1, per_page=20)
    assert [entry.text for entry in everything.items] == ["high", "high and old", "just so", "low"]
    assert everything.total == 4
    assert ([entry.text for entry in important.items], important.total) == (["just so"], 3)
    assert foreign == memories.Page((), 0)


async def test_a_deleted_entry_is_gone_and_counted_off_once(database: Database, alice: MemoryScope) -> None:
    async with database.begin() as conn:
        first, _ = await save(conn, folded(alice, "one", "two"))
    async with database.begin() as conn:
        foreign = await memories.delete_entry(conn, OTHER_ORGANIZATION, first.memory_id)
        deleted = await memories.delete_entry(conn, ORGANIZATION, first.memory_id)
        again = await memories.delete_entry(conn, ORGANIZATION, first.memory_id)
    assert (foreign, again) == (None, None)
    assert deleted == memories.DeletedEntry(first.memory_id, CONFIG, "alice")
    assert len(await stored_texts(database)) == 1
    assert await entry_count(database) == 1


async def test_a_text_that_was_deleted_can_be_saved_anew(database: Database, shared: MemoryScope) -> None:
    async with database.begin() as conn:
        (first,) = await save(conn, folded(shared, "Use UTC"))
        await memories.delete_entry(conn, ORGANIZATION, first.memory_id)
        (second,) = await save(conn, folded(shared, "Use UTC"))
    assert second.inserted
    assert second.memory_id != first.memory_id
