"""First answers to POSTs that carry an `Idempotency-Key`.

The rule that must not break: a key belongs to one organization, one route and one body; whoever comes second with the
same three gets the first answer (SPEC.md section 8).
"""

from datetime import timedelta
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_store.statements import Statement

GIVEN_UP_AFTER: Final = timedelta(seconds=60)
"""Longer than the timeouts of a connection let any request take."""


class KeptAnswer(NamedTuple):
    """What is kept under a key; `status` is None while the first request is still being answered."""

    body_hash: bytes
    status: int | None
    response: bytes | None


# A request that has not answered for so long died with its process; whoever sends the same again takes its place.
_RESERVE: Final = Statement(
    """
    INSERT INTO lorebus.idempotency_keys AS k (organization_uuid, route, key, body_hash)
    VALUES (:organization_uuid, :route, :key, :body_hash)
    ON CONFLICT (organization_uuid, route, key) DO UPDATE SET created_at = now()
    WHERE k.status IS NULL AND k.body_hash = excluded.body_hash
        AND k.created_at < now() - CAST(:given_up_after AS interval)
    RETURNING 1
    """
)
_THIS: Final = "organization_uuid = :organization_uuid AND route = :route AND key = :key"
_FIND: Final = Statement(f"SELECT body_hash, status, response FROM lorebus.idempotency_keys WHERE {_THIS}")
_REMEMBER: Final = Statement(
    f"UPDATE lorebus.idempotency_keys SET status = :status, response = :response WHERE {_THIS}"
)
_FORGET: Final = Statement(f"DELETE FROM lorebus.idempotency_keys WHERE {_THIS} AND status IS NULL")
_FORGET_ANSWERS: Final = Statement(
    "DELETE FROM lorebus.idempotency_keys WHERE organization_uuid = :organization_uuid AND status IS NOT NULL"
)


async def reserve(
    conn: AsyncConnection,
    *,
    organization_uuid: UUID,
    route: str,
    key: str,
    body_hash: bytes,
    given_up_after: timedelta = GIVEN_UP_AFTER,
) -> KeptAnswer | None:
    """Take a key for this request; what is kept under it when another request was first, else None.

    Also takes over from a request with the same body that took it longer ago than `given_up_after` and never answered.
    """
    this: dict[str, object] = {"organization_uuid": organization_uuid, "route": route, "key": key}
    wanted = this | {"body_hash": body_hash, "given_up_after": given_up_after}
    while await _RESERVE.row(conn, wanted) is None:
        kept = await find(conn, organization_uuid=organization_uuid, route=route, key=key)
        if kept is not None:
            return kept
        # The first request came to nothing meanwhile, and its key is free.
    return None


async def find(conn: AsyncConnection, *, organization_uuid: UUID, route: str, key: str) -> KeptAnswer | None:
    """What is kept under a key; None when nothing is."""
    this = {"organization_uuid": organization_uuid, "route": route, "key": key}
    row = await _FIND.row(conn, this)
    return None if row is None else KeptAnswer(*row)


async def remember(
    conn: AsyncConnection, *, organization_uuid: UUID, route: str, key: str, status: int, response: bytes
) -> None:
    """Keep the answer that was given under a key that was taken."""
    this: dict[str, object] = {"organization_uuid": organization_uuid, "route": route, "key": key}
    await _REMEMBER.run(conn, this | {"status": status, "response": response})


async def forget(conn: AsyncConnection, *, organization_uuid: UUID, route: str, key: str) -> None:
    """Free a key whose request came to nothing, so that it can be tried again."""
    await _FORGET.run(conn, {"organization_uuid": organization_uuid, "route": route, "key": key})


async def forget_answers(conn: AsyncConnection, organization_uuid: UUID) -> int:
    """Delete every answer kept for the organization, because some may hold texts that are to be erased; how many.

    Nothing counts twice for it: what a key starts has an id that comes from the key.
    """
    return await _FORGET_ANSWERS.run(conn, {"organization_uuid": organization_uuid})
