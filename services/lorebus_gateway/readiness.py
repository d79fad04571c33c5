"""Whether the gateway can do its work now: probed every second, told by `/health/ready`."""

import asyncio
from typing import Final

from lorebus_kit.acceptance import AcceptMode, Acceptor
from lorebus_kit.backoff import pause
from lorebus_kit.health import Health
from lorebus_kit.probing import AWAY, NOT_ASKED, Answering, database_problem

PROBE_SECONDS: Final = 1.0


class Readiness:
    """Ready is a gateway with its store; one that accepts on the bus is ready with either, since saves go on.

    With a login that row-level security does not hold none is ready: an operator is to give it another.
    """

    def __init__(self, database: Answering, acceptor: Acceptor, *, mode: AcceptMode) -> None:
        self._database = database
        self._acceptor = acceptor
        self._mode = mode
        self._problem: str | None = NOT_ASKED

    async def run(self, stop: asyncio.Event) -> None:
        """Probe until `stop` is set."""
        while not stop.is_set():
            self._problem = await database_problem(self._database)
            await pause(PROBE_SECONDS, stop)

    def health(self) -> Health:
        """What the gateway says of itself."""
        bus_there = self._acceptor.bus_is_there
        can_do_without = self._mode is AcceptMode.BUS and bus_there and self._problem in {AWAY, NOT_ASKED}
        problems = () if self._problem is None or can_do_without else (self._problem,)
        facts = {"accept": self._mode.value, "database": self._problem is None, "bus": bus_there}
        return Health(live_problems=(), ready_problems=problems, facts=facts)
