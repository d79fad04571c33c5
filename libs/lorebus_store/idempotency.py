"""First answers to POSTs that carry an `Idempotency-Key`.

The rule that must not break: a key belongs to one organization, one route and one body; whoever comes second with the
same three gets the first answer (SPEC.md section 8).
"""

from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_store.statements import Statement


class KeptAnswer(NamedTuple):
    """What is kept under a key; `status` is None while the first request is still being answered."""

    body_hash: bytes
    status: int | None
    response: bytes | None


_RESERVE: Final = Statement(
    """
    INSERT INTO lorebus.idempotency_keys (organization_uuid, route, key, body_hash)
    VALUES (:organization_uuid, :route, :key, :body_hash) ON CONFLICT DO NOTHING RETURNING 1
    """
)
_THIS: Final = "organization_uuid = :organization_uuid AND route = :route AND key = :key"
_FIND: Final = Statement(f"SELECT body_hash, status, response FROM lorebus.idempotency_keys WHERE {_THIS}")
_REMEMBER: Final = Statement(
    f"UPDATE lorebus.idempotency_keys SET status = :status, response = :response WHERE {_THIS}"
)
_FORGET: Final = Statement(f"DELETE FROM lorebus.idempotency_keys WHERE {_THIS} AND status IS NULL")


async def reserve(
    conn: AsyncConnection, *, organization_uuid: UUID, route: str, key: str, body_hash: bytes
) -> KeptAnswer | None:
    """Take a key for this request; what is kept under it when another request was first, else None."""
    this: dict[str, object] = {"organization_uuid": organization_uuid, "route": route, "key": key}
    if await _RESERVE.row(conn, this | {"body_hash": body_hash}) is not None:
        return None
    return await find(conn, organization_uuid=organization_uuid, route=route, key=key)


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
