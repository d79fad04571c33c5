"""Retention: finished runs, claims, first answers and counts of requests are deleted once nothing can ask for them.

The rule that must not break: runs and claims are kept longer than the topics and the dead-letter topics keep records,
so that a record that comes again, even replayed from the dead letters, still finds its work done.
"""

import asyncio
import logging
from datetime import timedelta
from typing import Final

from lorebus_kit.backoff import pause
from lorebus_kit.topics import DEAD_LETTER_DAYS
from lorebus_store import retention
from lorebus_store.acting import SystemRole
from lorebus_store.database import Database

KEPT: Final = timedelta(days=DEAD_LETTER_DAYS * 2)
"""Twice as long as a dead letter."""
IDEMPOTENCY_KEPT: Final = timedelta(days=7)
RATE_WINDOWS_KEPT: Final = timedelta(hours=1)
ROWS_A_STEP: Final = 1_000
SWEEP_SECONDS: Final = 600.0
_log: Final = logging.getLogger(__name__)


class Retention:
    """Deletes what is past its keeping, every ten minutes, in small steps."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep until `stop` is set.

        Raises:
            TransientError: PostgreSQL is away; begin again later.
        """
        while not stop.is_set():
            while not stop.is_set() and await self.step():
                pass
            await pause(SWEEP_SECONDS, stop)

    async def step(self) -> bool:
        """Delete at most a thousand rows of each kind; true if there may be more."""
        async with self._database.begin(SystemRole.HOUSEKEEPING) as connection:
            swept = await retention.sweep(
                connection,
                runs_older_than=KEPT,
                events_older_than=KEPT,
                idempotency_keys_older_than=IDEMPOTENCY_KEPT,
                rate_windows_older_than=RATE_WINDOWS_KEPT,
                chunk=ROWS_A_STEP,
            )
        if any(swept):
            _log.info("swept", extra=swept._asdict())
        return any(count == ROWS_A_STEP for count in swept)
