"""The API keys of organizations: only the sha256 of a key is kept, with a prefix that people recognize it by."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection
from uuid6 import uuid7

from lorebus_store.settings import tell_of_change
from lorebus_store.statements import Statement


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is kept; `revoked_at` None means that it opens the door."""

    organization_uuid: UUID
    id: UUID
    prefix: str
    name: str
    scopes: frozenset[str]
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


_COLUMNS: Final = "organization_uuid, id, prefix, name, scopes, created_at, last_used_at, revoked_at"
_CREATE: Final = Statement(
    f"""
    INSERT INTO lorebus.api_keys (organization_uuid, id, key_hash, prefix, name, scopes)
    VALUES (:organization_uuid, :id, :key_hash, :prefix, :name, CAST(:scopes AS text[]))
    RETURNING {_COLUMNS}
    """
)
_FIND: Final = Statement(
    f"SELECT {_COLUMNS} FROM lorebus.api_keys WHERE key_hash = :key_hash AND revoked_at IS NULL"
)
_LIST: Final = Statement(
    f"""
    SELECT {_COLUMNS} FROM lorebus.api_keys
    WHERE organization_uuid = :organization_uuid ORDER BY created_at, id
    """
)
_GET: Final = Statement(
    f"SELECT {_COLUMNS} FROM lorebus.api_keys WHERE organization_uuid = :organization_uuid AND id = :id"
)
# In the order of their ids, as everybody who locks several. A key that was revoked meanwhile is not among them.
_LOCK_ADMINS: Final = Statement(
    """
    SELECT id FROM lorebus.api_keys
    WHERE organization_uuid = :organization_uuid AND revoked_at IS NULL AND 'admin' = ANY (scopes)
    ORDER BY id FOR NO KEY UPDATE
    """
)
_REVOKE: Final = Statement(
    """
    UPDATE lorebus.api_keys SET revoked_at = now()
    WHERE organization_uuid = :organization_uuid AND id = :id AND revoked_at IS NULL
    """
)
_MARK_USED: Final = Statement(
    """
    UPDATE lorebus.api_keys k SET last_used_at = now()
    FROM (
        SELECT k.organization_uuid, k.id FROM lorebus.api_keys k
        JOIN unnest(CAST(:organizations AS uuid[]), CAST(:ids AS uuid[])) AS used (organization_uuid, id)
            USING (organization_uuid, id)
        ORDER BY k.organization_uuid, k.id FOR NO KEY UPDATE OF k
    ) AS used
    WHERE k.organization_uuid = used.organization_uuid AND k.id = used.id
    """
)


async def create_key(
    conn: AsyncConnection,
    *,
    organization_uuid: UUID,
    name: str,
    scopes: Collection[str],
    key_hash: bytes,
    prefix: str,
    key_id: UUID | None = None,
) -> ApiKey:
    """Keep a new key: `key_hash` is the 32 bytes of its sha256; without an id of its own it gets one here."""
    values = {
        "organization_uuid": organization_uuid,
        "id": key_id or uuid7(),
        "key_hash": key_hash,
        "prefix": prefix,
        "name": name,
        "scopes": sorted(scopes),
    }
    return _api_key(await _CREATE.row(conn, values))


async def find_key(conn: AsyncConnection, key_hash: bytes) -> ApiKey | None:
    """The key with this sha256 that is not revoked; here, and only here, the organization is the answer.

    The transaction is a `KeyHolder`'s of this hash.
    """
    row = await _FIND.row(conn, {"key_hash": key_hash})
    return None if row is None else _api_key(row)


async def get_key(conn: AsyncConnection, organization_uuid: UUID, key_id: UUID) -> ApiKey | None:
    """The organization's key, revoked or not; None when it has no such key."""
    row = await _GET.row(conn, {"organization_uuid": organization_uuid, "id": key_id})
    return None if row is None else _api_key(row)


async def lock_admins(conn: AsyncConnection, organization_uuid: UUID) -> tuple[UUID, ...]:
    """The ids of the open keys that may make keys, which nobody else revokes until the transaction ends."""
    rows = await _LOCK_ADMINS.rows(conn, {"organization_uuid": organization_uuid})
    return tuple(row[0] for row in rows)


async def list_keys(conn: AsyncConnection, organization_uuid: UUID) -> tuple[ApiKey, ...]:
    """The organization's keys, oldest first, revoked ones among them."""
    rows = await _LIST.rows(conn, {"organization_uuid": organization_uuid})
    return tuple(map(_api_key, rows))


async def revoke(conn: AsyncConnection, *, organization_uuid: UUID, key_id: UUID) -> bool:
    """Close the door to a key; False when the organization has no such open key."""
    revoked = await _REVOKE.run(conn, {"organization_uuid": organization_uuid, "id": key_id}) == 1
    if revoked:
        await tell_of_change(conn)
    return revoked


async def mark_used(conn: AsyncConnection, keys: Sequence[tuple[UUID, UUID]]) -> None:
    """Note that these (organization_uuid, key id) were used now; meant to be called now and then, off any path."""
    await _MARK_USED.run(conn, {"organizations": [o for o, _ in keys], "ids": [i for _, i in keys]})


def _api_key(row: Any) -> ApiKey:  # noqa: ANN401  # A row, whose columns SQLAlchemy cannot know.
    organization_uuid, key_id, prefix, name, scopes, created_at, last_used_at, revoked_at = row
    return ApiKey(
        organization_uuid=organization_uuid,
        id=key_id,
        prefix=prefix,
        name=name,
        scopes=frozenset(scopes),
        created_at=created_at,
        last_used_at=last_used_at,
        revoked_at=revoked_at,
    )
