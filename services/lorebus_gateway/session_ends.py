"""Whether a session has been over for so long that its token is good no more.

The rule that must not break: no request waits for this but rarely. A session that had not ended at some time has a good
token until that time and the grace, so that asking once a grace is enough; and a new token needs no asking at all.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from lorebus_kit.tokens import VerifiedToken
from lorebus_store import sessions
from lorebus_store.acting import Tenants
from lorebus_store.database import Database
from lorebus_store.errors import StoreError

STORE_SECONDS: Final = 2.0
"""How long the database may take to say whether a session has ended, before the request goes on without that."""
STORE_AWAY_SECONDS: Final = 3.0
"""How long the database is not asked after it did not say."""
_MAX_REMEMBERED: Final = 10_000
_log: Final = logging.getLogger(__name__)

SessionKey: TypeAlias = tuple[UUID, UUID]
"""(organization_uuid, session_uuid)."""


class _Known(NamedTuple):
    """When a session ended, None where nobody has said so, and until when that is not asked again: Unix time."""

    ended_at: float | None
    until: float


_NOTHING_KNOWN: Final = _Known(None, 0.0)


class SessionEnds:
    """Knows the ends of sessions: those that this gateway was told of at once, all others from the database.

    While the database is away a session counts as it was last known: an end that is known goes on being one, and where
    none is the token is good (`docs/decisions/ended-sessions-lose-their-token-late.md`).
    """

    def __init__(
        self,
        database: Database,
        *,
        grace_seconds: float,
        remember_seconds: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Refuse tokens `grace_seconds` after the end; ask for no session more often than each `remember_seconds`."""
        self._database = database
        self._grace_seconds = grace_seconds
        self._known_seconds = max(grace_seconds, remember_seconds)
        self._clock = clock
        self._known: dict[SessionKey, _Known] = {}
        self._away_until = 0.0

    def note(self, organization_uuid: UUID, session_uuid: UUID, ended_at: datetime) -> None:
        """Know from now on that the session ended."""
        key = (organization_uuid, session_uuid)
        self._remember(key, ended_at.timestamp(), now=self._clock())

    async def is_over(self, token: VerifiedToken) -> bool:
        """Whether the grace is over that a token has after its session's end, or after its own minting if later."""
        now = self._clock()
        if now < token.issued_at + self._grace_seconds:
            return False
        key = (token.claims.organization_uuid, token.claims.session_uuid)
        known = self._known.get(key, _NOTHING_KNOWN)
        if now >= known.until:
            known = await self._asked(key, known, now=now)
        return (
            known.ended_at is not None and now >= max(known.ended_at, token.issued_at) + self._grace_seconds
        )

    async def _asked(self, key: SessionKey, known: _Known, *, now: float) -> _Known:
        if now < self._away_until:
            return known
        try:
            async with asyncio.timeout(STORE_SECONDS), self._database.read(Tenants.of(key[0])) as connection:
                found = await sessions.ended_at(connection, *key)
        except (StoreError, TimeoutError) as error:
            self._away_until = now + STORE_AWAY_SECONDS
            _log.info("a session's end could not be looked up", extra={"error_type": type(error).__name__})
            return known
        return self._remember(key, None if found is None else found.timestamp(), now=now)

    def _remember(self, key: SessionKey, ended_at: float | None, *, now: float) -> _Known:
        """Keep the later end: what this gateway was told may not have come to the database yet."""
        ends = [end for end in (self._known.get(key, _NOTHING_KNOWN).ended_at, ended_at) if end is not None]
        if len(self._known) >= _MAX_REMEMBERED:
            self._known.clear()
        known = self._known[key] = _Known(max(ends, default=None), now + self._known_seconds)
        return known
