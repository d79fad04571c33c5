"""Noticing that runs change, for everybody who waits for one.

The rule that must not break: however many wait, they are one query at a time on one connection, so that those who wait
leave the pool to those who work. Whoever goes away costs nothing from then on.
"""

import asyncio
import logging
from dataclasses import dataclass
from time import monotonic
from typing import Final

from lorebus_gateway import metrics
from lorebus_kit.backoff import pause
from lorebus_store import run_versions
from lorebus_store.acting import Tenants
from lorebus_store.database import Database
from lorebus_store.errors import StoreError
from lorebus_store.run_rows import RunKey
from lorebus_store.run_versions import RunVersion

FIRST_LOOK_SECONDS: Final = 0.02
LONGEST_LOOK_SECONDS: Final = 0.25
STORE_AWAY_SECONDS: Final = 1.0
"""How long nobody looks after the database did not answer."""

_log: Final = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Waiting:
    """Somebody who knows one version of a run and waits for another; looked for at `due`, then ever more rarely."""

    key: RunKey
    known: RunVersion | None
    found: asyncio.Future[RunVersion | None]
    due: float
    interval: float = FIRST_LOOK_SECONDS

    def tell(self, version: RunVersion | None, now: float) -> None:
        """Be done with another version; otherwise wait for the next look."""
        if version is not None and version != self.known and not self.found.done():
            self.found.set_result(version)
        self.interval = min(self.interval * 2, LONGEST_LOOK_SECONDS)
        self.due = now + self.interval


class RunChanges:
    """Looks at runs as long as anybody waits, and until `stopping` is set."""

    def __init__(self, database: Database, stopping: asyncio.Event) -> None:
        self._database = database
        self._stopping = stopping
        self._waiting: set[_Waiting] = set()
        self._joined = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether nobody is to wait any longer."""
        return self._stopping.is_set()

    async def ended(self, key: RunKey, *, seconds: float) -> bool:
        """Whether the run ends within this time."""
        deadline = monotonic() + seconds
        version: RunVersion | None = None
        while version is None or not version.state_name.is_terminal:
            version = await self.changed(key, version, seconds=deadline - monotonic())
            if version is None:
                return False
        return True

    async def changed(self, key: RunKey, known: RunVersion | None, *, seconds: float) -> RunVersion | None:
        """The run's version as soon as it is another than `known`; None when the time is up, or all is to stop."""
        if self._stopping.is_set() or seconds <= 0:
            return None
        found: asyncio.Future[RunVersion | None] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(key, known, found, due=monotonic() + FIRST_LOOK_SECONDS)
        self._join(waiting)
        try:
            async with asyncio.timeout(seconds):
                return await found
        except TimeoutError:
            return None
        finally:
            self._waiting.discard(waiting)
            metrics.RUNS_WAITED_FOR.set(len(self._waiting))

    def _join(self, waiting: _Waiting) -> None:
        self._waiting.add(waiting)
        metrics.RUNS_WAITED_FOR.set(len(self._waiting))
        self._joined.set()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="run-changes")

    async def _look(self) -> None:
        while self._waiting and not self._stopping.is_set():
            self._joined.clear()
            until_due = min(waiting.due for waiting in self._waiting) - monotonic()
            if until_due > 0 and await pause(until_due, self._joined):
                continue
            await self._look_once()
        for waiting in self._waiting:
            if not waiting.found.done():
                waiting.found.set_result(None)

    async def _look_once(self) -> None:
        """Tell all who are due now, or so soon that they can as well be told with them."""
        soon = monotonic() + FIRST_LOOK_SECONDS
        due = [waiting for waiting in self._waiting if waiting.due <= soon]
        try:
            keys = {waiting.key for waiting in due}
            tenants = Tenants.of_all(organization for organization, _ in keys)
            async with self._database.read(tenants) as connection:
                found = await run_versions.versions(connection, keys)
        except StoreError as error:
            _log.warning("runs not looked at", extra={"error_text": str(error)})
            await pause(STORE_AWAY_SECONDS, self._stopping)
            return
        now = monotonic()
        for waiting in due:
            waiting.tell(found.get(waiting.key), now)
