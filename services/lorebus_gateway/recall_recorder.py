"""Recording answered recalls behind their answers.

The rule that must not break: a load waits for no write, and yet no recall is lost while either store takes it. The
queue is bounded, by recalls and by what they handed out: when it is full the load records its recall itself, which is
slow, and not lost.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Protocol

from lorebus_contracts.events import Event
from lorebus_gateway import metrics
from lorebus_gateway.answered_recalls import AnsweredRecall
from lorebus_kit.backoff import Backoff, pause
from lorebus_store.errors import TransientError

MOST_AT_ONCE: Final = 50
"""Recalls accepted together: many in flight on the bus, or one transaction in the store."""
GATHER_SECONDS: Final = 0.02
"""How long a recall waits for others, so that whoever records them has dozens in a transaction and not two."""

MOST_ENTRIES_WAITING: Final = 50_000
"""Entries of all recalls that wait, some 200 bytes each: some thousand `full` loads would fill the memory with them."""

_log: Final = logging.getLogger(__name__)


class Accepts(Protocol):
    """What is needed of an acceptor (`lorebus_kit.acceptance.Acceptor`)."""

    async def accept_all(
        self, events: Sequence[Event], encoded: Sequence[bytes], traceparents: Sequence[str | None]
    ) -> None:
        """Accept all of the events, whose bytes and traces are given, durably; TransientError when no store does."""


class RecallRecorder:
    """A bounded queue of answered recalls, and the task that has them accepted."""

    def __init__(self, acceptor: Accepts, *, queue_size: int) -> None:
        self._acceptor = acceptor
        self._queue: asyncio.Queue[AnsweredRecall] = asyncio.Queue(queue_size)
        self._waiting = 0
        self._entries_waiting = 0

    async def record(self, recall: AnsweredRecall) -> None:
        """Have the recall recorded soon; while the queue is full, now."""
        if self._queue.full() or self._entries_waiting >= MOST_ENTRIES_WAITING:
            await self._record_now(recall)
            return
        self._queue.put_nowait(recall)
        self._waiting += 1
        self._entries_waiting += len(recall.choice.entries)
        metrics.RECALL_RECORDS_WAITING.set(self._waiting)

    async def run(self, stop: asyncio.Event) -> None:
        """Have what is queued accepted; after `drain`, set `stop` and cancel it where it waits for more."""
        backoff = Backoff(most_seconds=2.0)
        while not stop.is_set():
            batch = await self._next_batch(stop)
            try:
                while not await self._accepted(batch):
                    if await pause(backoff.next_seconds(), stop):
                        return
            finally:
                self._done(batch)
            backoff.reset()

    async def drain(self, timeout_seconds: float) -> None:
        """Wait until everything queued is accepted, at most this long; what is left then is lost and counted."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._queue.join()
        except TimeoutError:
            metrics.RECALL_RECORDS_LOST.inc(self._waiting)
            _log.error("recalls lost", extra={"recalls": self._waiting})

    def _done(self, batch: Sequence[AnsweredRecall]) -> None:
        for recall in batch:
            self._queue.task_done()
            self._entries_waiting -= len(recall.choice.entries)
        self._waiting -= len(batch)
        metrics.RECALL_RECORDS_WAITING.set(self._waiting)

    async def _next_batch(self, stop: asyncio.Event) -> list[AnsweredRecall]:
        batch = [await self._queue.get()]
        if self._queue.qsize() < MOST_AT_ONCE - 1:
            await pause(GATHER_SECONDS, stop)
        while len(batch) < MOST_AT_ONCE and not self._queue.empty():
            batch.append(self._queue.get_nowait())
        return batch

    async def _accepted(self, batch: Sequence[AnsweredRecall]) -> bool:
        encoded = []
        for recall in batch:
            encoded.append(recall.encoded())
            # A pack takes half a millisecond: loads that are waiting come in between.
            await asyncio.sleep(0)
        try:
            await self._acceptor.accept_all(
                [recall.head for recall in batch], encoded, [recall.traceparent for recall in batch]
            )
        except TransientError as error:
            _log.warning("recalls wait to be recorded", extra={"error_text": str(error)})
            return False
        return True

    async def _record_now(self, recall: AnsweredRecall) -> None:
        if not await self._accepted((recall,)):
            metrics.RECALL_RECORDS_LOST.inc()
            _log.error("recall lost", extra={"recall_id": str(recall.head.event_id)})
