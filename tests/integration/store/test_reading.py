"""What loads read: the right entries in the right order, by index scans only."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from lorebus_domain.recall import PackReach
from lorebus_domain.visibility import MemoryScope, ReadScope
from lorebus_store import candidates, memories, settings
from lorebus_store.database import Database
from tests.integration.store.builders import (
    CONFIG,
    NOON,
    ORGANIZATION,
    OTHER_ORGANIZATION,
    folded,
    plan,
    run_sql,
    save,
    value,
)

ACTOR = ReadScope("alice", shared=True)
END_USER = ReadScope("alice", shared=False)
NOBODY = ReadScope(None, shared=True)


async def save_each(database: Database, scope: MemoryScope, *entries: tuple[str, float, int]) -> None:
    """Texts with their importance and age in days."""
    async with database.begin() as conn:
        for text, importance, age_days in entries:
            await save(conn, folded(scope, text, importance=importance), at=NOON - timedelta(days=age_days))


async def save_many(database: Database, scope: MemoryScope, count: int, *, first: int = 0) -> None:
    """Entries with the words `entry` and their number, the later the newer and the less important."""
    async with database.begin() as conn:
        for number in range(first, first + count):
            await save(
                conn,
                folded(scope, f"entry {number}", importance=0.9 - number / 10_000),
                at=NOON + timedelta(seconds=number),
            )


@pytest.mark.parametrize(
    ("scope", "newest", "important"),
    [
        (
            ACTOR,
            ["own new", "pool new", "own old", "pool old"],
            ["pool old", "own old", "own new", "pool new"],
        ),
        (END_USER, ["own new", "own old"], ["own old", "own new"]),
        (NOBODY, ["pool new", "pool old"], ["pool old", "pool new"]),
        (ReadScope(None, shared=False), [], []),
    ],
)
async def test_a_caller_reads_its_own_entries_and_the_pool_only_where_it_may(
    database: Database, scope: ReadScope, newest: list[str], important: list[str]
) -> None:
    await save_each(
        database, MemoryScope(ORGANIZATION, CONFIG, "alice"), ("own new", 0.3, 1), ("own old", 0.8, 3)
    )
    await save_each(
        database, MemoryScope(ORGANIZATION, CONFIG, None), ("pool new", 0.2, 2), ("pool old", 0.9, 4)
    )
    for foreign in (
        MemoryScope(ORGANIZATION, CONFIG, "Alice"),
        MemoryScope(ORGANIZATION, CONFIG, "alic"),
        MemoryScope(ORGANIZATION, OTHER_ORGANIZATION, "alice"),
        MemoryScope(OTHER_ORGANIZATION, CONFIG, None),
    ):
        await save_each(database, foreign, ("foreign", 1.0, 0))
    async with database.read() as conn:
        by_time = await memories.newest(conn, ORGANIZATION, CONFIG, scope, 10)
        by_importance = await memories.most_important(conn, ORGANIZATION, CONFIG, scope, 10)
        some = await memories.pack_candidates(
            conn, ORGANIZATION, CONFIG, scope, newest_limit=1, important_limit=2
        )
        texts = await memories.texts_of(conn, ORGANIZATION, [candidate.memory_id for candidate in some])
    assert [entry.text for entry in by_time] == newest
    assert [entry.text for entry in by_importance] == important
    # The newest, and the two most important of the rest.
    assert set(texts.values()) == {*newest[:1], *[text for text in important if text not in newest[:1]][:2]}


async def test_a_limit_counts_over_both_scopes(
    database: Database, alice: MemoryScope, shared: MemoryScope
) -> None:
    await save_each(database, alice, ("own new", 0.3, 1), ("own old", 0.8, 3))
    await save_each(database, shared, ("pool new", 0.2, 2))
    async with database.read() as conn:
        entries = await memories.newest(conn, ORGANIZATION, CONFIG, ACTOR, 2)
    assert [entry.text for entry in entries] == ["own new", "pool new"]
    assert entries[0] == candidates.StoredEntry(
        id=entries[0].id,
        text="own new",
        importance=0.3,
        created_at=NOON - timedelta(days=1),
        fingerprint=entries[0].fingerprint,
        text_chars=7,
        reinforcement_count=0,
        principal_ref="alice",
    )


async def test_entries_of_one_time_and_importance_come_by_id_highest_first(
    database: Database, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        saved = await save(conn, folded(shared, *(f"entry {number}" for number in range(30))), at=NOON)
    ids = sorted((row.memory_id for row in saved), reverse=True)
    async with database.read() as conn:
        by_time = await memories.newest(conn, ORGANIZATION, CONFIG, NOBODY, 30)
        by_importance = await memories.most_important(conn, ORGANIZATION, CONFIG, NOBODY, 30)
    assert [entry.id for entry in by_time] == [entry.id for entry in by_importance] == ids


async def test_length_counts_code_points(database: Database, shared: MemoryScope) -> None:
    await save_each(database, shared, ("né 💡", 0.5, 0))
    async with database.read() as conn:
        (entry,) = await memories.newest(conn, ORGANIZATION, CONFIG, NOBODY, 1)
        (candidate,) = await memories.pack_candidates(
            conn, ORGANIZATION, CONFIG, NOBODY, newest_limit=1, important_limit=1
        )
    assert (entry.text_chars, candidate.text_chars) == (4, 4)
    assert candidate.terms == ("ne", "💡")


async def test_a_pack_has_five_hundred_different_candidates_where_there_are_as_many(
    database: Database, alice: MemoryScope, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        await save(conn, folded(alice, *(f"own {number}" for number in range(300))), at=NOON)
        await save(conn, folded(shared, *(f"pool {number}" for number in range(300))), at=NOON)
    async with database.read() as conn:
        found = await memories.pack_candidates(
            conn, ORGANIZATION, CONFIG, ACTOR, newest_limit=250, important_limit=250
        )
        own = await memories.pack_candidates(
            conn, ORGANIZATION, CONFIG, END_USER, newest_limit=250, important_limit=250
        )
    assert len({candidate.memory_id for candidate in found}) == len(found) == 500
    assert len({candidate.memory_id for candidate in own}) == len(own) == 300


async def reached(database: Database, scope: ReadScope, terms: Sequence[str]) -> set[str]:
    """The texts that the reach adds to the two newest and the one most important."""
    async with database.read() as conn:
        near = await memories.pack_candidates(
            conn, ORGANIZATION, CONFIG, scope, newest_limit=2, important_limit=1
        )
        all_of_them = await memories.pack_candidates(
            conn,
            ORGANIZATION,
            CONFIG,
            scope,
            newest_limit=2,
            important_limit=1,
            reach_terms=terms,
            reach_limit=2,
        )
        added = {found.memory_id for found in all_of_them} - {found.memory_id for found in near}
        assert len(all_of_them) == len(near) + len(added)
        return set((await memories.texts_of(conn, ORGANIZATION, list(added))).values())


async def test_a_reach_to_all_finds_old_entries_by_their_words(
    database: Database, alice: MemoryScope, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        await settings.put_agent_config(conn, ORGANIZATION, CONFIG, memory_pack_reach=PackReach.ALL)
    await save_many(database, alice, 4)
    await save_many(database, shared, 4, first=4)
    await save_many(database, MemoryScope(ORGANIZATION, CONFIG, "bob"), 4)
    assert await reached(database, ACTOR, ["2"]) == {"entry 2"}
    assert await reached(database, ACTOR, ["2", "5", "nothing"]) == {"entry 2", "entry 5"}
    assert await reached(database, END_USER, ["1"]) == {"entry 1"}
    assert await reached(database, NOBODY, ["5"]) == {"entry 5"}
    # Of many matches, the limit's worth, the best first and of equals the most important.
    assert await reached(database, ACTOR, ["entry"]) == {"entry 1", "entry 2"}
    assert await reached(database, END_USER, ["5"]) == set()


async def test_a_reach_adds_nothing_where_the_first_two_limits_hold_everything(
    database: Database, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        await settings.put_agent_config(conn, ORGANIZATION, CONFIG, memory_pack_reach=PackReach.ALL)
    await save_many(database, shared, 3)
    assert await reached(database, NOBODY, ["1"]) == set()
    await save_many(database, shared, 1, first=3)
    assert await reached(database, NOBODY, ["1"]) == {"entry 1"}


async def test_terms_may_hold_any_sign(database: Database, shared: MemoryScope) -> None:
    odd = ["it's", "back\\slash", "a:b*", "(c)", "&", "|", "!", "'", "''", "\\", '"', "<->", "💡", "%"]
    async with database.begin() as conn:
        await settings.put_agent_config(conn, ORGANIZATION, CONFIG, memory_pack_reach=PackReach.ALL)
        rows = folded(shared, "old text", "newer text", "newest text", "very newest text")
        await save(conn, rows, at=NOON)
    for sign in odd:
        async with database.begin() as conn:
            await run_sql(
                conn,
                """
                UPDATE lorebus.memories SET terms = 'plain ' || CASE WHEN id = (
                    SELECT id FROM lorebus.memories ORDER BY id LIMIT 1
                ) THEN :sign ELSE 'other' END
                """,
                sign=sign,
            )
        found = await reached(database, NOBODY, [sign, *(other for other in odd if other != sign)])
        assert len(found) == 1, sign


LOADS = {
    "last_k of an actor": (candidates._NEWEST[True, True], ["memories_newest"] * 2),
    "last_k of an end user": (candidates._NEWEST[True, False], ["memories_newest"]),
    "last_k of the pool": (candidates._NEWEST[False, True], ["memories_newest"]),
    "importance of an actor": (candidates._MOST_IMPORTANT[True, True], ["memories_most_important"] * 2),
    "importance of an end user": (candidates._MOST_IMPORTANT[True, False], ["memories_most_important"]),
    "pack of an actor": (
        candidates._RECENT[True, True],
        ["memories_newest"] * 2 + ["memories_most_important"] * 2,
    ),
}


@pytest.mark.parametrize("is_analyzed", [False, True])
@pytest.mark.parametrize("load", LOADS)
async def test_a_load_is_ordered_index_scans_however_little_the_server_knows(
    database: Database, load: str, *, is_analyzed: bool
) -> None:
    if is_analyzed:
        async with database.begin() as conn:
            for ref in (None, "alice", "bob"):
                scope = MemoryScope(ORGANIZATION, CONFIG, ref)
                await save(conn, folded(scope, *(f"entry {number}" for number in range(1_000))))
        async with database.read() as conn:
            await value(conn, "ANALYZE lorebus.memories")
    statement, indexes = LOADS[load]
    async with database.read() as conn:
        lines = (await plan(conn, statement)).splitlines()
    scans = [number for number, line in enumerate(lines) if " on memories" in line]
    assert [lines[number].split(" using ")[1].split(" on ")[0] for number in scans] == indexes
    # Whatever is sorted is at most what the limits of the scans let through.
    assert all("Limit" in lines[number - 1] for number in scans)


async def test_texts_of_another_organization_are_not_given(database: Database, shared: MemoryScope) -> None:
    async with database.begin() as conn:
        (saved,) = await save(conn, folded(shared, "Use UTC"))
    async with database.read() as conn:
        assert await memories.texts_of(conn, OTHER_ORGANIZATION, [saved.memory_id]) == {}
        assert await memories.get_entry(conn, OTHER_ORGANIZATION, saved.memory_id) is None
