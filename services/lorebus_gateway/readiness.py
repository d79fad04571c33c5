"""Whether the gateway can do its work now: probed every second, told by `/health/ready`."""

import asyncio
from typing import Final, Protocol

from lorebus_kit.acceptance import AcceptMode, Acceptor
from lorebus_kit.backoff import pause
from lorebus_kit.health import Health
from lorebus_store.errors import StoreError

PROBE_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = 2.0


class Pings(Protocol):
    """What is needed of a database (`lorebus_store.database.Database`)."""

    async def ping(self) -> None:
        """Ask for an answer; StoreError when there is none."""


class Readiness:
    """Ready is a gateway with its store; one that accepts on the bus is ready with either, since saves go on."""

    def __init__(self, database: Pings, acceptor: Acceptor, *, mode: AcceptMode) -> None:
        self._database = database
        self._acceptor = acceptor
        self._mode = mode
        self._database_there = False

    async def run(self, stop: asyncio.Event) -> None:
        """Probe until `stop` is set."""
        while not stop.is_set():
            self._database_there = await self._probe()
            await pause(PROBE_SECONDS, stop)

    def health(self) -> Health:
        """What the gateway says of itself."""
        bus_there = self._acceptor.bus_is_there
        ready = self._database_there or (self._mode is AcceptMode.BUS and bus_there)
        problems = () if ready else ("PostgreSQL does not answer; waiting for it",)
        facts = {"accept": self._mode.value, "database": self._database_there, "bus": bus_there}
        return Health(live_problems=(), ready_problems=problems, facts=facts)

    async def _probe(self) -> bool:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._database.ping()
        except (StoreError, TimeoutError):
            return False
        return True
