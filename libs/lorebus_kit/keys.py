"""API keys of organizations: made once, shown once, kept as a hash.

The rule that must not break: the plain key is nowhere but with whoever asked for it; it has 256 random bits, so a
plain sha256 of it cannot be turned round.
"""

import hashlib
import secrets
from collections.abc import Collection
from typing import Final, NamedTuple
from uuid import UUID

from lorebus_domain.key_scope import KeyScope
from lorebus_store import keys, settings
from lorebus_store.acting import Tenants
from lorebus_store.database import Connection, Database
from lorebus_store.keys import ApiKey

KEY_PREFIX: Final = "lrb_"
_RANDOM_BYTES: Final = 32
_SHOWN_CHARS: Final = 12
ALL_SCOPES: Final = tuple(KeyScope)


class NewKey(NamedTuple):
    """A key that was just made: `plain` for its owner, `hash` and `prefix` for the store."""

    plain: str
    hash: bytes
    prefix: str


class MadeKey(NamedTuple):
    """A key that is kept now: `plain` for its owner, who alone has it."""

    plain: str
    kept: ApiKey


def new_key() -> NewKey:
    """A new key: `lrb_` and 43 characters; its first 12 characters are what people recognise it by."""
    plain = KEY_PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    return NewKey(plain, key_hash(plain.encode()), plain[:_SHOWN_CHARS])


def key_hash(plain: bytes) -> bytes:
    """What is kept of a key: 32 bytes."""
    return hashlib.sha256(plain).digest()


async def make_key(
    connection: Connection,
    organization_uuid: UUID,
    *,
    name: str,
    scopes: Collection[KeyScope],
    key_id: UUID | None = None,
) -> MadeKey:
    """Make a key of an organization that is known."""
    key = new_key()
    kept = await keys.create_key(
        connection,
        organization_uuid=organization_uuid,
        name=name,
        scopes=scopes,
        key_hash=key.hash,
        prefix=key.prefix,
        key_id=key_id,
    )
    return MadeKey(key.plain, kept)


async def create_key(
    database: Database, organization_uuid: UUID, *, name: str, scopes: Collection[KeyScope] = ALL_SCOPES
) -> str:
    """Make a key for the organization, which becomes known if it was not; the plain key, to be shown once.

    Raises:
        TransientError: the database is away.
    """
    async with database.begin(Tenants.of(organization_uuid)) as connection:
        await settings.put_organization(connection, organization_uuid)
        return (await make_key(connection, organization_uuid, name=name, scopes=scopes)).plain


async def ensure_local_key(database_url: str, organization_uuid: UUID) -> str:
    """A key of the local stack's organization, which is made with it; each call makes another key.

    Raises:
        TransientError: the database is away.
    """
    database = Database(database_url, pool_size=1, application_name="lorebus-keys")
    try:
        return await create_key(database, organization_uuid, name="local")
    finally:
        await database.dispose()
