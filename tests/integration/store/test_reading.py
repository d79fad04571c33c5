"""What loads read: the right entries in the right order, by index scans only."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from lorebus_domain.recall import PackReach
from lorebus_domain.terms import packed, terms
from lorebus_domain.visibility import Actor, EndUser, MemoryScope, NoCaller, Scope
from lorebus_store import candidates, memories, settings
from lorebus_store.memories import PackedCandidates
from tests.integration.store.builders import (
    CONFIG,
    NOON,
    ORGANIZATION,
    OTHER_ORGANIZATION,
    StoreDatabase,
    folded,
    ids_of,
    plan,
    run_sql,
    save,
    value,
)

ACTOR = Scope(ORGANIZATION, CONFIG, Actor("alice"))
END_USER = Scope(ORGANIZATION, CONFIG, EndUser("alice"))
NOBODY = Scope(ORGANIZATION, CONFIG, NoCaller())


async def save_each(database: StoreDatabase, scope: MemoryScope, *entries: tuple[str, float, int]) -> None:
    """Texts with their importance and age in days."""
    async with database.begin() as conn:
        for text, importance, age_days in entries:
            await save(conn, folded(scope, text, importance=importance), at=NOON - timedelta(days=age_days))


async def save_many(database: StoreDatabase, scope: MemoryScope, count: int, *, first: int = 0) -> None:
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
        (Scope(ORGANIZATION, CONFIG, EndUser(None)), [], []),
    ],
)
async def test_a_caller_reads_its_own_entries_and_the_pool_only_where_it_may(
    database: StoreDatabase, scope: Scope, newest: list[str], important: list[str]
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
        _, by_time = await memories.newest(conn, scope, 10)
        _, by_importance = await memories.most_important(conn, scope, 10)
        some = await memories.pack_candidates(conn, scope, newest_limit=1, important_limit=2)
        texts = await memories.texts_of(conn, scope, ids_of(some))
    assert [entry.text for entry in by_time] == newest
    assert [entry.text for entry in by_importance] == important
    # The newest, and the two most important of the rest.
    assert set(texts.values()) == {*newest[:1], *[text for text in important if text not in newest[:1]][:2]}


async def test_a_limit_counts_over_both_scopes(
    database: StoreDatabase, alice: MemoryScope, shared: MemoryScope
) -> None:
    await save_each(database, alice, ("own new", 0.3, 1), ("own old", 0.8, 3))
    await save_each(database, shared, ("pool new", 0.2, 2))
    async with database.read() as conn:
        _, entries = await memories.newest(conn, ACTOR, 2)
    assert [entry.text for entry in entries] == ["own new", "pool new"]
    assert entries[0] == candidates.StoredEntry(id=entries[0].id, text="own new", importance=0.3)


async def test_entries_of_one_time_and_importance_come_by_id_highest_first(
    database: StoreDatabase, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        saved = await save(conn, folded(shared, *(f"entry {number}" for number in range(30))), at=NOON)
    ids = sorted((row.memory_id for row in saved), reverse=True)
    async with database.read() as conn:
        _, by_time = await memories.newest(conn, NOBODY, 30)
        _, by_importance = await memories.most_important(conn, NOBODY, 30)
    assert [entry.id for entry in by_time] == [entry.id for entry in by_importance] == ids


async def test_a_candidate_is_bytes_of_known_lengths(database: StoreDatabase, shared: MemoryScope) -> None:
    async with database.begin() as conn:
        (saved,) = await save(conn, folded(shared, "né 💡"), at=datetime(2000, 1, 1, 0, 0, 1, tzinfo=UTC))
    async with database.read() as conn:
        found = await memories.pack_candidates(conn, NOBODY, newest_limit=1, important_limit=1)
    assert found == PackedCandidates(
        task=None,
        ids=saved.memory_id.bytes,
        fingerprints=saved.fingerprint,
        importances=bytes.fromhex("3fe0000000000000"),
        created_at=bytes.fromhex("00000000000f4240"),
        text_chars=bytes.fromhex("00000004"),
        term_counts=bytes.fromhex("00000002"),
        term_hashes=packed(["ne", "💡"]),
    )


async def test_an_entry_of_the_release_before_has_its_terms_worked_out(
    database: StoreDatabase, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        await save(conn, folded(shared, "Backups of the café", "?!"))
        await run_sql(
            conn,
            "UPDATE lorebus.memories SET term_hashes = NULL WHERE organization_uuid = :o",
            o=ORGANIZATION,
        )
    async with database.read() as conn:
        found = await memories.pack_candidates(conn, NOBODY, newest_limit=2, important_limit=2)
    assert found.term_hashes == packed(terms("Backups of the café"))
    assert sorted(found.term_counts) == [0, 0, 0, 0, 0, 0, 0, 2]


async def test_a_pack_has_five_hundred_different_candidates_where_there_are_as_many(
    database: StoreDatabase, alice: MemoryScope, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        await save(conn, folded(alice, *(f"own {number}" for number in range(300))), at=NOON)
        await save(conn, folded(shared, *(f"pool {number}" for number in range(300))), at=NOON)
    async with database.read() as conn:
        found = await memories.pack_candidates(conn, ACTOR, newest_limit=250, important_limit=250)
        own = await memories.pack_candidates(conn, END_USER, newest_limit=250, important_limit=250)
    assert len(set(ids_of(found))) == len(ids_of(found)) == 500
    assert len(set(ids_of(own))) == len(ids_of(own)) == 300


async def reached(database: StoreDatabase, scope: Scope, terms: Sequence[str]) -> set[str]:
    """The texts that the reach adds to the two newest and the one most important."""
    async with database.read() as conn:
        near = await memories.pack_candidates(conn, scope, newest_limit=2, important_limit=1)
        all_of_them = await memories.pack_candidates(
            conn,
            scope,
            newest_limit=2,
            important_limit=1,
            reach_terms=terms,
            reach_limit=2,
        )
        added = set(ids_of(all_of_them)) - set(ids_of(near))
        assert len(ids_of(all_of_them)) == len(ids_of(near)) + len(added)
        return set((await memories.texts_of(conn, scope, list(added))).values())


async def test_a_reach_to_all_finds_old_entries_by_their_words(
    database: StoreDatabase, alice: MemoryScope, shared: MemoryScope
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
    database: StoreDatabase, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        await settings.put_agent_config(conn, ORGANIZATION, CONFIG, memory_pack_reach=PackReach.ALL)
    await save_many(database, shared, 3)
    assert await reached(database, NOBODY, ["1"]) == set()
    await save_many(database, shared, 1, first=3)
    assert await reached(database, NOBODY, ["1"]) == {"entry 1"}


async def test_terms_may_hold_any_sign(database: StoreDatabase, shared: MemoryScope) -> None:
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


def parent_of(lines: Sequence[str], number: int) -> str:
    """The line of the node that takes the rows of the node in this line."""
    depths = [len(line) - len(line.lstrip()) for line in lines]
    return next(lines[above] for above in range(number - 1, -1, -1) if depths[above] < depths[number])


@pytest.mark.parametrize("is_analyzed", [False, True])
@pytest.mark.parametrize("load", LOADS)
async def test_a_load_is_ordered_index_scans_however_little_the_server_knows(
    database: StoreDatabase, load: str, *, is_analyzed: bool
) -> None:
    if is_analyzed:
        async with database.begin() as conn:
            for ref in (None, "alice", "bob"):
                scope = MemoryScope(ORGANIZATION, CONFIG, ref)
                await save(conn, folded(scope, *(f"entry {number}" for number in range(1_000))))
        async with database.owner() as conn:
            await value(conn, "ANALYZE lorebus.memories")
    statement, indexes = LOADS[load]
    async with database.read() as conn:
        lines = (await plan(conn, statement)).splitlines()
    scans = [number for number, line in enumerate(lines) if " on memories" in line]
    assert [lines[number].split(" using ")[1].split(" on ")[0] for number in scans] == indexes
    # Whatever is sorted is at most what the limits of the scans let through.
    assert all("Limit" in parent_of(lines, number) for number in scans)


@pytest.mark.parametrize(
    "scope",
    [
        Scope(OTHER_ORGANIZATION, CONFIG, NoCaller()),
        Scope(ORGANIZATION, OTHER_ORGANIZATION, NoCaller()),
        END_USER,
        Scope(ORGANIZATION, CONFIG, EndUser(None)),
    ],
)
async def test_texts_that_a_caller_may_not_see_are_not_given_by_their_ids(
    database: StoreDatabase, shared: MemoryScope, scope: Scope
) -> None:
    async with database.begin() as conn:
        (saved,) = await save(conn, folded(shared, "Use UTC"))
    async with database.read() as conn:
        assert await memories.texts_of(conn, NOBODY, [saved.memory_id]) == {saved.memory_id: "Use UTC"}
        assert await memories.texts_of(conn, scope, [saved.memory_id]) == {}


async def test_an_entry_of_another_organization_is_not_given(
    database: StoreDatabase, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        (saved,) = await save(conn, folded(shared, "Use UTC"))
    async with database.read() as conn:
        assert await memories.get_entry(conn, OTHER_ORGANIZATION, saved.memory_id) is None
