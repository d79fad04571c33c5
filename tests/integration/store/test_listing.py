"""Listing and deleting entries, as a person does."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lorebus_domain.quarantine import EntryState
from lorebus_domain.visibility import MemoryScope
from lorebus_store import listing, memories
from tests.integration.store.builders import (
    CONFIG,
    NOON,
    ORGANIZATION,
    OTHER_ORGANIZATION,
    StoreDatabase,
    entry_count,
    folded,
    plan,
    save,
    stored_texts,
)


async def test_pages_of_entries_that_are_all_equal_hold_each_of_them_once(
    database: StoreDatabase, shared: MemoryScope, alice: MemoryScope
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
    database: StoreDatabase, shared: MemoryScope, alice: MemoryScope
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


async def texts_where(database: StoreDatabase, **wanted: Any) -> list[str]:  # noqa: ANN401 - Any filter.
    async with database.read() as conn:
        page = await memories.list_page(conn, ORGANIZATION, CONFIG, page=1, per_page=50, **wanted)
        rest = await memories.list_page(conn, ORGANIZATION, CONFIG, page=2, per_page=1, **wanted)
    assert page.total == rest.total == len(page.items)
    assert rest.items == page.items[1:2]
    return sorted(entry.text for entry in page.items)


async def test_a_listing_is_of_one_principal_of_the_shared_pool_or_of_all_but_that(
    database: StoreDatabase, shared: MemoryScope, alice: MemoryScope
) -> None:
    others = [
        replace(alice, principal_ref=ref) for ref in ("alice1", "a_ice", "a%", "Alice", " alice ", "a\\b")
    ]
    async with database.begin() as conn:
        await save(conn, folded(shared, "of the pool"))
        await save(conn, folded(alice, "of alice"))
        for other in others:
            await save(conn, folded(other, f"of {other.principal_ref}"))

    assert await texts_where(database, principal_ref="alice") == ["of alice"]
    assert await texts_where(database, principal_ref="a_ice") == ["of a_ice"]
    assert await texts_where(database, principal_ref="a%") == ["of a%"]
    assert await texts_where(database, principal_ref="a\\b") == ["of a\\b"]
    assert await texts_where(database, principal_ref="nobody") == []
    assert await texts_where(database, shared=True) == ["of the pool"]
    assert len(await texts_where(database, shared=False)) == 7
    assert len(await texts_where(database)) == 8


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["100%"], ["100% sure"]),
        (["%"], ["100% sure"]),
        (["_"], ["snake_case"]),
        (["\\"], ["C:\\temp"]),
        (["C:\\temp"], ["C:\\temp"]),
        (["SURE"], ["100 sure", "100% sure"]),
        (["sure", "100"], ["100 sure", "100% sure"]),
        (["sure", "snake"], []),
        (["ÉTÉ"], ["L'été à Пловдив"]),
        (["пЛОВ"], ["L'été à Пловдив"]),
        (["鍵"], ["本番の鍵は回す"]),
        (["'"], ["L'été à Пловдив"]),
    ],
)
async def test_every_word_must_be_in_the_text_as_it_is_but_for_its_case(
    database: StoreDatabase, shared: MemoryScope, words: list[str], found: list[str]
) -> None:
    texts = ("100% sure", "100 sure", "snake_case", "C:\\temp", "L'été à Пловдив", "本番の鍵は回す")
    async with database.begin() as conn:
        await save(conn, folded(shared, *texts))

    assert await texts_where(database, words=words) == found


async def test_conditions_are_met_together(
    database: StoreDatabase, shared: MemoryScope, alice: MemoryScope
) -> None:
    async with database.begin() as conn:
        await save(conn, folded(alice, "tea high", importance=0.9))
        await save(conn, folded(alice, "tea low", importance=0.2))
        await save(conn, folded(alice, "coffee", importance=0.9))
        await save(conn, folded(shared, "tea of all", importance=0.9))

    found = await texts_where(
        database, principal_ref="alice", min_importance=0.5, origin="runner", words=["tea"]
    )

    assert found == ["tea high"]
    assert await texts_where(database, origin="import", words=["tea"]) == []
    assert await texts_where(database, shared=True, min_importance=0.95) == []


@pytest.mark.parametrize("key", list(listing._LISTINGS))
async def test_a_listing_walks_an_index_in_its_order_from_the_first_entry_on(
    database: StoreDatabase, key: tuple[EntryState, tuple[bool, bool | None], bool]
) -> None:
    async with database.read() as conn:
        lines = await plan(conn, listing._LISTINGS[key].page)

    state, whose, _ = key
    of_scope = "memories_most_important" if whose in {(True, None), (False, True)} else "memories_of_config"
    assert ("memories_held" if state is EntryState.QUARANTINED else of_scope) in lines
    assert "Seq Scan" not in lines
    assert state is EntryState.QUARANTINED or "Sort" not in lines


async def test_a_deleted_entry_is_gone_and_counted_off_once(
    database: StoreDatabase, alice: MemoryScope
) -> None:
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


async def test_a_text_that_was_deleted_can_be_saved_anew(
    database: StoreDatabase, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        (first,) = await save(conn, folded(shared, "Use UTC"))
        await memories.delete_entry(conn, ORGANIZATION, first.memory_id)
        (second,) = await save(conn, folded(shared, "Use UTC"))
    assert second.inserted
    assert second.memory_id != first.memory_id
