"""Who makes a request: a session by its token, or an organization by its API key.

The rule that must not break: credentials are sound or the request is refused, and the refusal is the same whatever
was wrong with them.
"""

import re
from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from lorebus_domain.key_scope import KeyScope
from lorebus_gateway.errors import NotAuthenticatedError
from lorebus_gateway.key_uses import KeyUses
from lorebus_gateway.remembered import Remembered
from lorebus_gateway.session_ends import SessionEnds
from lorebus_kit.keys import key_hash
from lorebus_kit.tokens import InvalidTokenError, SessionClaims, SessionTokens
from lorebus_store import keys
from lorebus_store.acting import KeyHolder
from lorebus_store.database import Database

_CREDENTIALS: Final = re.compile(rb"(agent|bearer) +([!-~]{1,8192}) *", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Organization:
    """An organization that showed one of its keys, and what that key is for."""

    organization_uuid: UUID
    key_id: UUID | None = None
    scopes: frozenset[KeyScope] = frozenset()


HeldKeys: TypeAlias = Remembered[bytes, Organization]
"""Who holds a key, by its sha256."""


class Authenticator:
    """Verifies the `Authorization` header; who holds a key is remembered in `held_keys`.

    So a key that was revoked elsewhere may still open the door until that is heard of. Every method raises
    NotAuthenticatedError. A token is good until its session has been over for a while (`SessionEnds`).
    """

    def __init__(
        self,
        tokens: SessionTokens,
        database: Database,
        ends: SessionEnds,
        uses: KeyUses,
        held_keys: HeldKeys,
    ) -> None:
        self._tokens = tokens
        self._database = database
        self._ends = ends
        self._uses = uses
        self._held_keys = held_keys

    async def anyone(self, _header: bytes | None) -> None:
        """No credentials are asked for."""

    async def session(self, header: bytes | None) -> SessionClaims:
        """The session whose token is shown."""
        scheme, credentials = _split(header)
        if scheme != b"agent":
            raise NotAuthenticatedError
        return await self._session(credentials)

    async def organization(self, header: bytes | None) -> Organization:
        """The organization whose API key is shown.

        Raises:
            TransientError: the key is not remembered and the database is away.
        """
        scheme, credentials = _split(header)
        if scheme != b"bearer":
            raise NotAuthenticatedError
        return await self._organization(credentials)

    async def session_or_organization(self, header: bytes | None) -> SessionClaims | Organization:
        """Either of the two.

        Raises:
            TransientError: as `organization`.
        """
        scheme, credentials = _split(header)
        return await (self._session if scheme == b"agent" else self._organization)(credentials)

    async def _session(self, credentials: bytes) -> SessionClaims:
        try:
            token = self._tokens.verify(credentials.decode("ascii"))
        except InvalidTokenError as error:
            raise NotAuthenticatedError from error
        if await self._ends.is_over(token):
            raise NotAuthenticatedError
        return token.claims

    async def _organization(self, key: bytes) -> Organization:
        hashed = key_hash(key)
        organization = await self._held_keys.get(hashed, lambda: self._holder(hashed))
        if organization is None:
            raise NotAuthenticatedError
        if organization.key_id is not None:
            self._uses.note(organization.organization_uuid, organization.key_id)
        return organization

    async def _holder(self, hashed: bytes) -> Organization | None:
        async with self._database.read(KeyHolder(hashed)) as connection:
            found = await keys.find_key(connection, hashed)
        if found is None:
            return None
        scopes = frozenset(scope for scope in KeyScope if scope in found.scopes)
        return Organization(found.organization_uuid, found.id, scopes)


def credential_hash(header: bytes | None) -> bytes:
    """What the token or key of a sound header is counted by: 32 bytes.

    Raises:
        NotAuthenticatedError: there is none.
    """
    return key_hash(_split(header)[1])


def _split(header: bytes | None) -> tuple[bytes, bytes]:
    """The scheme in lower case and the credentials."""
    found = _CREDENTIALS.fullmatch(header or b"")
    if found is None:
        raise NotAuthenticatedError
    return found[1].lower(), found[2]
