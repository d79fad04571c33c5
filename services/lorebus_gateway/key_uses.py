"""When API keys were last used: written down behind the requests, once a minute a key at most.

The rule that must not break: no request waits for it, and a key in use costs the database one row a minute.
"""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final, TypeAlias
from uuid import UUID

from lorebus_kit.backoff import pause
from lorebus_store import keys
from lorebus_store.acting import Tenants
from lorebus_store.database import Database

NOTE_SECONDS: Final = 60.0
"""How long a key that was written down is not written down again."""
WRITE_SECONDS: Final = 5.0
"""How long a use waits to be written down together with others."""
_MAX_REMEMBERED: Final = 10_000

KeyOfOrganization: TypeAlias = tuple[UUID, UUID]
"""(organization_uuid, key id)."""


class KeyUses:
    """Hears of each use, and has it written down."""

    def __init__(
        self,
        database: Database,
        *,
        note_seconds: float = NOTE_SECONDS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._database = database
        self._note_seconds = note_seconds
        self._clock = clock
        self._due: set[KeyOfOrganization] = set()
        self._not_before: dict[KeyOfOrganization, float] = {}

    def note(self, organization_uuid: UUID, key_id: UUID) -> None:
        """Hear that the key was used now."""
        key = (organization_uuid, key_id)
        now = self._clock()
        if now < self._not_before.get(key, now):
            return
        if len(self._not_before) >= _MAX_REMEMBERED:
            self._not_before.clear()
        self._not_before[key] = now + self._note_seconds
        self._due.add(key)

    async def write(self) -> None:
        """Write down what was heard, an organization at a time; what could not be is heard of again in a minute.

        Raises:
            TransientError: the database is away.
        """
        due, self._due = self._due, set()
        for organization in sorted({organization for organization, _ in due}):
            async with self._database.begin(Tenants.of(organization)) as connection:
                await keys.mark_used(connection, sorted(key for key in due if key[0] == organization))

    async def run(self, stop: asyncio.Event) -> None:
        """Write until `stop` is set, and once more then."""
        while not await pause(WRITE_SECONDS, stop):
            await self.write()
        await self.write()
