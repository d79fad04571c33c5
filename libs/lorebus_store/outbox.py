"""What a transaction causes on the bus: kept with its effect, published by a relay afterwards, then deleted.

The rule that must not break: a row is read until it is deleted, never past a remembered id, because a slow transaction
commits behind later ids. All rows of a key are in one shard, and a shard is relayed by one process at a time, in order.
Everything but `add` is a queue of the system (`SystemRole.RELAY`): its rows may be any organization's.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID
from zlib import crc32

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_store.statements import Statement

SHARDS: Final = 16
"""Shards of the outbox: one is relayed by one process at a time, so that a key's order is kept."""
CHANNEL: Final = "lorebus_outbox"
"""Notified at commit, to wake a relay (`Database.listen`)."""
MOST_COUNTED: Final = 10_000
"""Where counting stops: beyond this it only matters that it is a lot."""


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A record to be published."""

    organization_uuid: UUID
    topic: str
    key: bytes
    payload: bytes
    event_id: UUID
    traceparent: str | None = None
    """The trace in which it was caused, as W3C writes it."""


class PendingRow(NamedTuple):
    """A record that waits to be published."""

    id: int
    shard: int
    organization_uuid: UUID
    topic: str
    key: bytes
    payload: bytes
    event_id: UUID
    traceparent: str | None = None


class Depth(NamedTuple):
    """How many rows wait, and for how long the oldest has."""

    rows: int
    oldest_age_seconds: float


def shard_of(key: bytes) -> int:
    """The shard that a key's records are in, from 0 to 15; the same in every process."""
    return crc32(key) % SHARDS


def _add(answer: str) -> str:
    return f"""
    WITH added AS (
        INSERT INTO lorebus.outbox (organization_uuid, shard, topic, key, payload, event_id, traceparent)
        SELECT * FROM unnest(
            CAST(:organizations AS uuid[]), CAST(:shards AS smallint[]), CAST(:topics AS text[]),
            CAST(:keys AS bytea[]), CAST(:payloads AS bytea[]), CAST(:events AS uuid[]),
            CAST(:traceparents AS text[])
        ) RETURNING 1
    )
    SELECT {answer} FROM (SELECT count(*) FROM added) AS added
    """


_ADD: Final = Statement(_add("count"))
_ADD_AND_NOTIFY: Final = Statement(_add(f"pg_notify('{CHANNEL}', '')"))
_LEASE: Final = Statement(
    """
    WITH free AS (
        SELECT l.shard FROM lorebus.outbox_leases l
        WHERE (l.token = :token OR l.leased_until IS NULL OR l.leased_until <= now())
            AND EXISTS (SELECT FROM lorebus.outbox o WHERE o.shard = l.shard)
        ORDER BY l.leased_until NULLS FIRST, l.shard LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE lorebus.outbox_leases l SET token = :token, leased_until = now() + make_interval(secs => :seconds)
    FROM free WHERE l.shard = free.shard RETURNING l.shard
    """
)
_PENDING: Final = Statement(
    f"""
    SELECT {", ".join(PendingRow._fields)} FROM lorebus.outbox
    WHERE id = ANY(ARRAY(
        SELECT first.id FROM unnest(CAST(:shards AS smallint[])) AS wanted (shard) CROSS JOIN LATERAL (
            SELECT o.id FROM lorebus.outbox o WHERE o.shard = wanted.shard ORDER BY o.id LIMIT :limit
        ) AS first
        ORDER BY first.id LIMIT :limit
    ))
    ORDER BY id
    """
)
_DELETE: Final = Statement("DELETE FROM lorebus.outbox WHERE id = ANY(CAST(:ids AS bigint[]))")
_RELEASE: Final = Statement(
    "UPDATE lorebus.outbox_leases SET token = NULL, leased_until = now() WHERE token = :token"
)
_DEPTH: Final = Statement(
    """
    SELECT count(*), coalesce(CAST(extract(epoch FROM now() - min(created_at)) AS double precision), 0)
    FROM (SELECT created_at FROM lorebus.outbox ORDER BY id LIMIT :limit) AS first
    """
)


async def add(conn: AsyncConnection, rows: Sequence[OutboxRow], *, notify: bool = True) -> None:
    """Keep records to be published once this transaction commits, in this order within a key.

    `notify` wakes relays of other processes. PostgreSQL lets only one notifying transaction commit at a time, so
    a writer that commits thousands of times a second wakes its own relay instead.
    """
    if not rows:
        return
    values = {
        "organizations": [row.organization_uuid for row in rows],
        "shards": [shard_of(row.key) for row in rows],
        "topics": [row.topic for row in rows],
        "keys": [row.key for row in rows],
        "payloads": [row.payload for row in rows],
        "events": [row.event_id for row in rows],
        "traceparents": [row.traceparent for row in rows],
    }
    await (_ADD_AND_NOTIFY if notify else _ADD).rows(conn, values)


async def lease_shards(
    conn: AsyncConnection, *, token: UUID, seconds: float, limit: int = SHARDS
) -> tuple[int, ...]:
    """Lease shards that have rows, free ones or the caller's own again; those longest unserved first."""
    rows = await _LEASE.rows(conn, {"token": token, "seconds": seconds, "limit": limit})
    return tuple(sorted(row[0] for row in rows))


async def pending(conn: AsyncConnection, shards: Collection[int], limit: int) -> tuple[PendingRow, ...]:
    """The first rows of these shards, at most `limit`, in the order in which they were added."""
    rows = await _PENDING.rows(conn, {"shards": list(shards), "limit": limit})
    return tuple(map(PendingRow._make, rows))


async def delete_published(conn: AsyncConnection, ids: Collection[int]) -> int:
    """Delete rows that the bus has confirmed; how many there were."""
    return await _DELETE.run(conn, {"ids": sorted(ids)})


async def release(conn: AsyncConnection, token: UUID) -> None:
    """Give up every lease of this token, so that others need not wait for its end."""
    await _RELEASE.run(conn, {"token": token})


async def depth(conn: AsyncConnection, limit: int = MOST_COUNTED) -> Depth:
    """How far the relays are behind; no more rows are looked at than `limit`, the oldest ones."""
    row = await _DEPTH.row(conn, {"limit": limit})
    return Depth(*row)
