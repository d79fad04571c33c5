"""API keys from a shell, for whoever has the database: made, listed, revoked.

The rule that must not break: a key is printed once, by the command that made it, and alone on its line.
"""

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from lorebus_domain.key_scope import KeyScope
from lorebus_kit.keys import ALL_SCOPES, create_key, key_hash
from lorebus_ops.answers import carried_out, say, say_json, say_table
from lorebus_ops.errors import RefusedError
from lorebus_ops.system_database import system_database
from lorebus_store import keys
from lorebus_store.acting import Tenants
from lorebus_store.keys import ApiKey

_COLUMNS: Final = ("key_id", "prefix", "scopes", "created_at", "last_used_at", "revoked_at", "name")


def create_api_key(
    database_url: str,
    organization_uuid: UUID,
    *,
    name: str,
    scopes: Collection[KeyScope] | None,
    as_json: bool,
) -> None:
    """Make a key for the organization, which becomes known if it was not, and print it; without scopes it has all."""
    plain, kept = carried_out(_create(database_url, organization_uuid, name, scopes or ALL_SCOPES))
    if as_json:
        say_json({"key": plain} | _told(kept))
    else:
        say(plain)


def list_api_keys(database_url: str, organization_uuid: UUID, *, as_json: bool) -> None:
    """Print the organization's keys, a line each."""
    kept = carried_out(_list(database_url, organization_uuid))
    if as_json:
        say_json({"keys": [_told(key) for key in kept]})
    else:
        say_table(_COLUMNS, map(_row, kept))


def revoke_api_key(database_url: str, organization_uuid: UUID, key_id: UUID, *, as_json: bool) -> None:
    """Revoke a key, the last one too: whoever has the database can make another."""
    carried_out(_revoke(database_url, organization_uuid, key_id))
    if as_json:
        say_json({"revoked": str(key_id)})
    else:
        say(f"revoked {key_id}")


async def _create(
    database_url: str, organization_uuid: UUID, name: str, scopes: Collection[KeyScope]
) -> tuple[str, ApiKey]:
    async with system_database(database_url) as database:
        plain = await create_key(database, organization_uuid, name=name, scopes=scopes)
        async with database.begin(Tenants.of(organization_uuid)) as connection:
            kept = await keys.find_key(connection, key_hash(plain.encode()))
    if kept is None:
        raise RefusedError("the key was revoked as soon as it was made")
    return plain, kept


async def _list(database_url: str, organization_uuid: UUID) -> Sequence[ApiKey]:
    async with (
        system_database(database_url) as database,
        database.begin(Tenants.of(organization_uuid)) as connection,
    ):
        return await keys.list_keys(connection, organization_uuid)


async def _revoke(database_url: str, organization_uuid: UUID, key_id: UUID) -> None:
    async with (
        system_database(database_url) as database,
        database.begin(Tenants.of(organization_uuid)) as connection,
    ):
        if not await keys.revoke(connection, organization_uuid=organization_uuid, key_id=key_id):
            raise RefusedError(f"the organization has no open key {key_id}")


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


def _row(key: ApiKey) -> list[object]:
    told = _told(key) | {"scopes": ",".join(sorted(key.scopes))}
    return [told[column] for column in _COLUMNS]
