"""Showing runs that the bus accepted, before their consumer has come to them.

The rule that must not break: a run whose id does not tell that it was given out is shown as soon as PostgreSQL takes
its row, and the caller's answer does not wait for that while PostgreSQL is away.
"""

import asyncio
import logging
from collections import deque
from typing import Final, Protocol

from lorebus_contracts.events import Event
from lorebus_kit.backoff import Backoff, pause
from lorebus_store.errors import TransientError

MOST_WAITING: Final = 10_000
"""Events that wait to be shown; the oldest are left to their consumer then."""
LOOK_SECONDS: Final = 0.5
_log: Final = logging.getLogger(__name__)


class NotesRuns(Protocol):
    """What is needed of an acceptor (`lorebus_kit.acceptance.Acceptor`)."""

    async def note_run(self, event: Event) -> None:
        """Show the run of an accepted event; TransientError when the store is away."""


class RunNoter:
    """Shows runs at once, or as soon as the store is back."""

    def __init__(self, acceptor: NotesRuns) -> None:
        self._acceptor = acceptor
        self._waiting: deque[Event] = deque(maxlen=MOST_WAITING)

    async def note(self, event: Event, *, now: bool) -> None:
        """Show the event's run, `now` or when the store answers."""
        if now and await self._noted(event):
            return
        self._waiting.append(event)

    async def run(self, stop: asyncio.Event) -> None:
        """Show what waits until `stop` is set."""
        backoff = Backoff(most_seconds=2.0)
        while not stop.is_set():
            if self._waiting and await self._noted(self._waiting[0]):
                self._waiting.popleft()
                backoff.reset()
            else:
                await pause(backoff.next_seconds() if self._waiting else LOOK_SECONDS, stop)

    async def _noted(self, event: Event) -> bool:
        try:
            await self._acceptor.note_run(event)
        except TransientError as error:
            _log.info("run not shown yet", extra={"error_text": str(error)})
            return False
        return True
