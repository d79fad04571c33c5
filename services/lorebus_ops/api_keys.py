"""API keys from a shell, for whoever has the database: made, listed, revoked. Each gives the exit code.

The rule that must not break: a key is printed once, by the command that made it, and alone on its line.
"""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from lorebus_contracts.schemas import as_text
from lorebus_domain.key_scope import KeyScope
from lorebus_kit.keys import ALL_SCOPES, create_key, key_hash
from lorebus_ops.administration import report
from lorebus_ops.errors import UnknownKeyError
from lorebus_store import keys
from lorebus_store.database import Database
from lorebus_store.keys import ApiKey

_COLUMNS: Final = ("key_id", "prefix", "scopes", "created_at", "last_used_at", "revoked_at", "name")


def create_api_key(
    database_url: str,
    organization_uuid: UUID,
    *,
    name: str,
    scopes: Collection[KeyScope] | None,
    as_json: bool,
) -> int:
    """Make a key for the organization, which becomes known if it was not, and print it; without scopes it has all."""
    wanted = scopes or ALL_SCOPES
    return report(_create(database_url, organization_uuid, name, wanted, as_json=as_json))


def list_api_keys(database_url: str, organization_uuid: UUID, *, as_json: bool) -> int:
    """Print the organization's keys, a line each."""
    return report(_list(database_url, organization_uuid, as_json=as_json))


def revoke_api_key(database_url: str, organization_uuid: UUID, key_id: UUID, *, as_json: bool) -> int:
    """Revoke a key, the last one too: whoever has the database can make another."""
    return report(_revoke(database_url, organization_uuid, key_id, as_json=as_json))


async def _create(
    database_url: str, organization_uuid: UUID, name: str, scopes: Collection[KeyScope], *, as_json: bool
) -> str:
    async with _database(database_url) as database:
        plain = await create_key(database, organization_uuid, name=name, scopes=scopes)
        if not as_json:
            return plain
        async with database.begin() as connection:
            kept = await keys.find_key(connection, key_hash(plain.encode()))
    return _json({"key": plain} | (_told(kept) if kept else {}))


async def _list(database_url: str, organization_uuid: UUID, *, as_json: bool) -> str:
    async with _database(database_url) as database, database.begin() as connection:
        kept = await keys.list_keys(connection, organization_uuid)
    if as_json:
        return _json({"keys": [_told(key) for key in kept]})
    return "\n".join((" ".join(_COLUMNS), *map(_line, kept)))


async def _revoke(database_url: str, organization_uuid: UUID, key_id: UUID, *, as_json: bool) -> str:
    async with _database(database_url) as database, database.begin() as connection:
        if not await keys.revoke(connection, organization_uuid=organization_uuid, key_id=key_id):
            raise UnknownKeyError(f"the organization has no open key {key_id}")
    return _json({"revoked": str(key_id)}) if as_json else f"revoked {key_id}"


@asynccontextmanager
async def _database(url: str) -> AsyncIterator[Database]:
    database = Database(url, pool_size=1, application_name="lorebus-keys")
    try:
        yield database
    finally:
        await database.dispose()


def _told(key: ApiKey) -> dict[str, object]:
    times = {"created_at": key.created_at, "last_used_at": key.last_used_at, "revoked_at": key.revoked_at}
    return {
        "key_id": str(key.id),
        "prefix": key.prefix,
        "name": key.name,
        "scopes": sorted(key.scopes),
        **{
            name: None if time is None else time.isoformat(timespec="seconds") for name, time in times.items()
        },
    }


def _line(key: ApiKey) -> str:
    """The key's name comes last, since it may hold spaces."""
    told = _told(key) | {"scopes": ",".join(sorted(key.scopes))}
    return " ".join(str(told[column] or "-") for column in _COLUMNS)


def _json(value: dict[str, object]) -> str:
    return as_text(value).rstrip("\n")
