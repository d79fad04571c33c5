"""Gives older entries what newer ones are saved with: a place in reach, hashed terms (`lorebus_store.reach`).

The rule that must not break: it goes on in small steps, each a transaction, so that no save of the config waits long.
"""

import asyncio
from typing import Final

from lorebus_kit.backoff import pause
from lorebus_store import reach
from lorebus_store.acting import SystemRole
from lorebus_store.database import Database

ENTRIES_A_STEP: Final = 1_000
LOOK_SECONDS: Final = 5.0


class Reaching:
    """Looks for such configs every five seconds; any number of processes may."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def run(self, stop: asyncio.Event) -> None:
        """Go on until `stop` is set.

        Raises:
            TransientError: PostgreSQL is away; begin again later.
        """
        while not stop.is_set():
            while not stop.is_set() and await self.step():
                pass
            await pause(LOOK_SECONDS, stop)

    async def step(self) -> bool:
        """Give at most a thousand entries of one config what they lack; false when no config waits."""
        async with self._database.begin(SystemRole.HOUSEKEEPING) as connection:
            return await reach.extend(connection, chunk=ENTRIES_A_STEP)
