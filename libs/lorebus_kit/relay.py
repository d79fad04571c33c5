"""The relay: publishes what transactions wrote to the outbox, then deletes it.

The rules that must not break: a row is deleted only after the broker has confirmed it; the rows of one key are
published in the order of their ids, because a key lives in one shard and a shard is leased by one relay at a
time. There is no cursor that could pass a row which commits late: what is not deleted is pending.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final
from uuid import UUID, uuid4

from lorebus_kit import metrics, tracing
from lorebus_kit.backoff import Backoff, pause
from lorebus_kit.bus import Record
from lorebus_kit.subscription import Publisher
from lorebus_store import outbox
from lorebus_store.acting import SystemRole
from lorebus_store.database import Database
from lorebus_store.errors import TransientError
from lorebus_store.outbox import CHANNEL, PendingRow

LEASE_SECONDS: Final = 15.0
"""Longer than a publish may take, so that a living relay never loses its lease in the middle of one."""
ROWS_A_ROUND: Final = 500
POLL_SECONDS: Final = 1.0
_log: Final = logging.getLogger(__name__)


class Relay:
    """Publishes the outbox; any number of processes may run one."""

    def __init__(self, database: Database, bus: Publisher) -> None:
        self._database = database
        self._bus = bus
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """There may be rows: look at once instead of at the next poll."""
        self._woken.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Publish until `stop` is set, then once more what is there."""
        listening = asyncio.create_task(self._listen(stop), name="relay-listen")
        backoff = Backoff(most_seconds=5.0)
        try:
            while not stop.is_set():
                try:
                    published = await self._round()
                except TransientError as error:
                    metrics.OUTBOX_FAILED.inc()
                    _log.warning("relay waits", extra={"error_text": str(error)})
                    await pause(backoff.next_seconds(), stop)
                else:
                    backoff.reset()
                    if not published:
                        await self._wait(stop)
            await self._last_round()
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _round(self) -> int:
        """Lease free shards that hold rows, publish their oldest rows; gives how many were published.

        Raises:
            TransientError: PostgreSQL or the broker is away; what was confirmed is deleted all the same.
        """
        self._woken.clear()
        token = uuid4()
        async with self._database.begin(SystemRole.RELAY) as connection:
            shards = await outbox.lease_shards(connection, token=token, seconds=LEASE_SECONDS)
            # Our lease is locked from here on, so that nobody else publishes what is read beside it.
            rows = await outbox.pending(connection, shards, limit=ROWS_A_ROUND) if shards else ()
        if not shards:
            return 0
        released = False
        try:
            errors = await self._bus.publish_all([_record(row) for row in rows])
            confirmed = _confirmed_in_order(rows, errors)
            async with self._database.begin(SystemRole.RELAY) as connection:
                await outbox.delete_published(connection, [row.id for row in confirmed])
                await outbox.release(connection, token)
            released = True
        finally:
            if not released:
                await self._release(token)
        for row in confirmed:
            metrics.OUTBOX_PUBLISHED.labels(row.topic).inc()
        failure = next((error for error in errors if error is not None), None)
        if failure is not None:
            raise failure
        return len(confirmed)

    async def _release(self, token: UUID) -> None:
        try:
            async with self._database.begin(SystemRole.RELAY) as connection:
                await outbox.release(connection, token)
        except TransientError:
            _log.warning("lease left to run out")

    async def _last_round(self) -> None:
        """On a stop: what is there is published by us now, or by another relay later."""
        try:
            async with asyncio.timeout(LEASE_SECONDS / 3):
                while await self._round():
                    pass
        except (TransientError, TimeoutError):
            _log.info("outbox left to another relay")

    async def _wait(self, stop: asyncio.Event) -> None:
        waits = {asyncio.create_task(event.wait()) for event in (self._woken, stop)}
        try:
            await asyncio.wait(waits, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _listen(self, stop: asyncio.Event) -> None:
        """Wake on NOTIFY; where that is not to be had (pgbouncer), polling does."""
        async with self._database.listen(CHANNEL) as wakeups:
            while not stop.is_set():
                if await wakeups.wait(POLL_SECONDS * 5):
                    self.wake()


def _record(row: PendingRow) -> Record:
    return Record(row.topic, row.key, row.payload, tracing.headers(row.traceparent))


def _confirmed_in_order(
    rows: Sequence[PendingRow], errors: Sequence[TransientError | None]
) -> tuple[PendingRow, ...]:
    """Confirmed rows, for each key only up to its first failure, so that a retry keeps the key's order."""
    broken: set[tuple[str, bytes | None]] = set()
    confirmed = []
    for row, error in zip(rows, errors, strict=True):
        if error is not None:
            broken.add((row.topic, row.key))
        elif (row.topic, row.key) not in broken:
            confirmed.append(row)
    return tuple(confirmed)
