"""An organization's own keys: made, listed and revoked by those of them that are for that.

The rule that must not break: a key grants no scope that it has not itself, and an organization is never left without an
open key that may make keys.
"""

from collections.abc import Callable
from uuid import UUID

from lorebus_contracts.http_keys import ApiKeyAnswer, KeyBody, KeyList, NewKeyAnswer
from lorebus_domain.key_scope import KeyScope
from lorebus_gateway.authentication import Organization
from lorebus_gateway.errors import ConflictError, NotFoundError
from lorebus_gateway.key_scopes import require_scopes
from lorebus_kit.keys import make_key
from lorebus_store import keys
from lorebus_store.acting import Tenants
from lorebus_store.database import Database
from lorebus_store.keys import ApiKey


class ApiKeys:
    """The keys of the organization that asks."""

    def __init__(self, database: Database, *, forget: Callable[[], None]) -> None:
        """`forget` is called when a key has been revoked."""
        self._database = database
        self._forget = forget

    async def create(self, asker: Organization, body: KeyBody, key_id: UUID | None) -> NewKeyAnswer:
        """Make a key; one that is there already by its id is told without what opens the door.

        Raises:
            ForbiddenError: the asker's key is not for all of the scopes.
            TransientError: the database is away.
        """
        require_scopes(asker, body.scopes)
        organization = asker.organization_uuid
        async with self._database.begin(Tenants.of(organization)) as connection:
            there = None if key_id is None else await keys.get_key(connection, organization, key_id)
            if there is not None:
                return NewKeyAnswer(**_told(there), key=None)
            made = await make_key(connection, organization, name=body.name, scopes=body.scopes, key_id=key_id)
        return NewKeyAnswer(**_told(made.kept), key=made.plain)

    async def all(self, asker: Organization) -> KeyList:
        """All keys of the organization.

        Raises:
            TransientError: the database is away.
        """
        async with self._database.read(Tenants.of(asker.organization_uuid)) as connection:
            kept = await keys.list_keys(connection, asker.organization_uuid)
        return KeyList(keys=tuple(ApiKeyAnswer(**_told(key)) for key in kept))

    async def revoke(self, asker: Organization, key_id: UUID) -> None:
        """Close the door to a key.

        Raises:
            NotFoundError: the organization has no such open key.
            ConflictError: it is the last open key that may make keys.
            TransientError: the database is away.
        """
        organization = asker.organization_uuid
        async with self._database.begin(Tenants.of(organization)) as connection:
            if await keys.lock_admins(connection, organization) == (key_id,):
                raise ConflictError
            if not await keys.revoke(connection, organization_uuid=organization, key_id=key_id):
                raise NotFoundError
        self._forget()


def _told(key: ApiKey) -> dict[str, object]:
    return {
        "key_id": key.id,
        "prefix": key.prefix,
        "name": key.name,
        "scopes": tuple(scope for scope in sorted(KeyScope) if scope in key.scopes),
        "created_at": key.created_at,
        "last_used_at": key.last_used_at,
        "revoked_at": key.revoked_at,
    }
