"""The workers: claim distills that are due, and make an attempt at each.

The rules that must not break: an attempt is counted when the run is claimed, so that a run that kills its worker each
time ends after five; and no organization, and no model that hangs, ever holds all of the workers.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Final

from lorebus_distill.attempts import Attempts, ProviderDirectory
from lorebus_distill.settings import DistillSettings
from lorebus_kit.relay import Relay
from lorebus_store import leases
from lorebus_store.acting import SystemRole
from lorebus_store.database import Database
from lorebus_store.leases import ClaimedRun

POLL_SECONDS: Final = 1.0
_log: Final = logging.getLogger(__name__)


class DistillWorkers:
    """Up to `distill_concurrency` distills at once, of them so many by one model as its profile says."""

    def __init__(
        self, settings: DistillSettings, database: Database, relay: Relay, providers: ProviderDirectory
    ) -> None:
        self._settings = settings
        self._database = database
        self._attempts = Attempts(settings, database, relay, providers)
        self._woken = asyncio.Event()
        self._running: dict[asyncio.Task[None], ClaimedRun] = {}

    def wake(self) -> None:
        """A distill may be due."""
        self._woken.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Claim and distil until `stop` is set, then let what runs finish; its lease covers what does not.

        Raises:
            TransientError: PostgreSQL is away; begin again later.
        """
        try:
            while not stop.is_set():
                self._woken.clear()
                claimed = await self._claim()
                for run in claimed:
                    self._start(run)
                if not claimed:
                    await self._wait(stop)
        finally:
            if self._running:
                await asyncio.wait(self._running, timeout=self._settings.distill_deadline_seconds)

    async def _claim(self) -> tuple[ClaimedRun, ...]:
        """What may be begun now: nothing beside a run that may be what ended its workers before."""
        free = self._settings.distill_concurrency - len(self._running)
        if free <= 0 or any(run.is_suspect for run in self._running.values()):
            return ()
        async with self._database.begin(SystemRole.HOUSEKEEPING) as connection:
            return await leases.claim_due(
                connection,
                limit=free,
                lease_seconds=self._attempts.lease_seconds,
                per_organization=self._settings.distill_concurrency_per_organization,
                per_profile=self._free_by_profile(),
                alone=not self._running,
            )

    def _free_by_profile(self) -> Mapping[str, int]:
        """How many more sessions each model may be asked about now."""
        asked = Counter(run.model_profile for run in self._running.values())
        return {
            name: max(0, profile.calls_at_once - asked[name])
            for name, profile in self._settings.models.items()
        }

    def _start(self, run: ClaimedRun) -> None:
        task = asyncio.create_task(self._attempts.make(run), name=f"distil:{run.id}")
        self._running[task] = run
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task)
        self._woken.set()
        if not task.cancelled() and task.exception() is not None:
            _log.error("distil left to its lease", exc_info=task.exception())

    async def _wait(self, stop: asyncio.Event) -> None:
        waits = {asyncio.create_task(event.wait()) for event in (self._woken, stop)}
        try:
            await asyncio.wait(waits, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
