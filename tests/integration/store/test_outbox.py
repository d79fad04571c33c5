"""The outbox: nothing is lost, and a key's records keep their order."""

import asyncio
from uuid import UUID, uuid4

import pytest

from lorebus_store import outbox
from lorebus_store.acting import SystemRole
from lorebus_store.outbox import OutboxRow
from tests.integration.store.builders import ORGANIZATION, StoreDatabase, act_as, plan, run_sql

ALL_SHARDS = tuple(range(16))


def row(key: bytes, payload: bytes = b"payload") -> OutboxRow:
    return OutboxRow(ORGANIZATION, "memory.changed", key, payload, uuid4())


async def add(database: StoreDatabase, *rows: OutboxRow) -> None:
    async with database.begin() as conn:
        await outbox.add(conn, rows)


async def lease(
    database: StoreDatabase, token: UUID, *, seconds: float = 60, limit: int = 16
) -> tuple[int, ...]:
    async with database.begin(SystemRole.RELAY) as conn:
        return await outbox.lease_shards(conn, token=token, seconds=seconds, limit=limit)


async def payloads(
    database: StoreDatabase, shards: tuple[int, ...] = ALL_SHARDS, limit: int = 100
) -> list[bytes]:
    async with database.read(SystemRole.RELAY) as conn:
        return [found.payload for found in await outbox.pending(conn, shards, limit)]


@pytest.mark.parametrize(("key", "shard"), [(b"", 0), (b"a", 3), (b"b", 9), (b"123456789", 6)])
def test_a_key_has_its_shard_in_every_process(key: bytes, shard: int) -> None:
    assert outbox.shard_of(key) == shard


async def test_what_is_added_is_pending_until_it_is_deleted(database: StoreDatabase) -> None:
    rows = [row(b"a", b"1"), row(b"b", b"2"), row(b"a", b"3")]
    await add(database, *rows)
    await add(database)
    async with database.begin(SystemRole.RELAY) as conn:
        found = await outbox.pending(conn, ALL_SHARDS, 10)
        assert await outbox.delete_published(conn, [found[1].id, found[0].id]) == 2
    assert [(p.organization_uuid, p.topic, p.key, p.payload, p.event_id) for p in found] == [
        (r.organization_uuid, r.topic, r.key, r.payload, r.event_id) for r in rows
    ]
    assert [p.shard for p in found] == [3, 9, 3]
    assert await payloads(database) == [b"3"]


async def test_a_transaction_that_fails_adds_nothing(database: StoreDatabase) -> None:
    async def fail() -> None:
        async with database.begin() as conn:
            await outbox.add(conn, [row(b"a")])
            raise LookupError("the effect failed")

    with pytest.raises(LookupError):
        await fail()
    assert await payloads(database) == []


async def test_a_slow_transaction_that_commits_after_later_rows_loses_nothing(
    database: StoreDatabase,
) -> None:
    async with database.begin() as slow:
        await outbox.add(slow, [row(b"a", b"slow")])
        await add(database, row(b"a", b"fast"), row(b"b", b"fast too"))
        async with database.begin(SystemRole.RELAY) as conn:
            first = await outbox.pending(conn, ALL_SHARDS, 10)
            await outbox.delete_published(conn, [found.id for found in first])
    assert [found.payload for found in first] == [b"fast", b"fast too"]
    assert await payloads(database) == [b"slow"]


async def test_a_shard_is_one_relays_until_its_lease_ends(database: StoreDatabase) -> None:
    first, second = uuid4(), uuid4()
    await add(database, row(b"a"), row(b"b"))
    assert await lease(database, first) == (3, 9)
    assert await lease(database, second) == ()
    assert await lease(database, first) == (3, 9)
    async with database.owner() as conn:
        await run_sql(conn, "UPDATE lorebus.outbox_leases SET leased_until = now() WHERE shard = 9")
    assert await lease(database, second) == (9,)
    async with database.begin(SystemRole.RELAY) as conn:
        await outbox.release(conn, first)
    assert await lease(database, second) == (3, 9)


async def test_only_shards_that_hold_rows_are_leased(database: StoreDatabase) -> None:
    assert await lease(database, uuid4()) == ()
    await add(database, row(b"b"))
    assert await lease(database, uuid4()) == (9,)


async def test_shards_are_served_in_turn(database: StoreDatabase) -> None:
    await add(database, row(b"a"), row(b"b"), row(b"123456789"))
    served: list[int] = []
    for _ in range(6):
        token = uuid4()
        served += await lease(database, token, limit=1)
        async with database.begin(SystemRole.RELAY) as conn:
            await outbox.release(conn, token)
    assert served == [3, 6, 9, 3, 6, 9]


async def test_two_relays_at_once_never_share_a_shard(database: StoreDatabase) -> None:
    await add(database, *(row(bytes([number])) for number in range(100)))
    leased = await asyncio.gather(*(lease(database, uuid4(), limit=4) for _ in range(6)))
    shards = [shard for of_one in leased for shard in of_one]
    assert len(shards) == len(set(shards))


async def test_pending_rows_come_in_order_and_the_oldest_first(database: StoreDatabase) -> None:
    await add(database, *(row(bytes([number % 7]), b"%d" % number) for number in range(50)))
    assert await payloads(database) == [b"%d" % number for number in range(50)]
    assert await payloads(database, limit=3) == [b"0", b"1", b"2"]
    assert await payloads(database, (outbox.shard_of(bytes([2])),), limit=3) == [b"2", b"9", b"16"]
    assert await payloads(database, ()) == []


async def test_the_depth_is_told_with_the_age_of_the_oldest(database: StoreDatabase) -> None:
    async with database.read(SystemRole.RELAY) as conn:
        assert await outbox.depth(conn) == (0, 0.0)
    await add(database, row(b"a"), row(b"b"))
    async with database.owner() as conn:
        await run_sql(
            conn,
            """
            UPDATE lorebus.outbox SET created_at = now() - interval '90 seconds'
            WHERE id = (SELECT min(id) FROM lorebus.outbox)
            """,
        )
        await act_as(conn, SystemRole.RELAY)
        assert await outbox.depth(conn) == (2, 90.0)


async def test_a_relay_walks_indexes_only(database: StoreDatabase) -> None:
    async with database.read(SystemRole.RELAY) as conn:
        plans = [await plan(conn, outbox._LEASE), await plan(conn, outbox._PENDING)]
    assert all("outbox_shard" in lines and "Seq Scan on outbox " not in lines for lines in plans)
