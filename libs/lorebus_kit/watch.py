"""Watching a consumer: are its dependencies there, does it move on what lies before it?

`ping` of a client sees the broker only; a consumer whose position stands still while records wait is not alive.
"""

import asyncio
from time import monotonic
from typing import Final

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

from lorebus_kit import metrics
from lorebus_kit.backoff import pause
from lorebus_kit.delivery import Delivery
from lorebus_kit.health import Health
from lorebus_store.database import Database
from lorebus_store.errors import TransientError

PROBE_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = 2.0
STUCK_SECONDS: Final = 60.0
BUSY_SECONDS: Final = 120.0


class ConsumerWatch:
    """Probes PostgreSQL and the broker every second and compares positions with the ends of the partitions."""

    def __init__(self, *, delivery: Delivery, database: Database, group: str) -> None:
        self._delivery = delivery
        self._database = database
        self._group = group
        self.consumer: AIOKafkaConsumer | None = None
        self.consuming = False
        self._database_there = False
        self._broker_there = False
        self._lag = 0
        self._last_move = monotonic()
        self._positions: dict[object, int] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Probe until `stop` is set."""
        while not stop.is_set():
            self._database_there = await self._probe_database()
            self._broker_there = await self._probe_broker()
            if self.consumer is not None:
                await self._measure(self.consumer)
            await pause(PROBE_SECONDS, stop)

    def health(self) -> Health:
        """What the process says of itself now."""
        state = self._delivery.state
        ready = []
        if state.halted:
            ready.append(f"halted: {state.halted}")
        if not self._database_there:
            ready.append("PostgreSQL does not answer; waiting for it")
        if not self._broker_there:
            ready.append("the broker does not answer; waiting for it")
        elif not self.consuming and not state.halted:
            ready.append("not yet in its consumer group; joining it")
        facts = {
            "group": self._group,
            "lag_records": self._lag,
            "halted": state.halted,
            "waiting_for_dependency": state.waiting_for_dependency,
        }
        return Health(tuple(self._live_problems()), tuple(ready), facts)

    def _live_problems(self) -> list[str]:
        state, now = self._delivery.state, monotonic()
        if state.waiting_for_dependency or state.halted or not (self._database_there and self._broker_there):
            return []
        problems = []
        if state.busy_since is not None and now - state.busy_since > BUSY_SECONDS:
            problems.append(f"one batch has been in hand for over {BUSY_SECONDS:.0f} s; restart the process")
        elif self._lag > 0 and now - max(self._last_move, state.last_progress) > STUCK_SECONDS:
            problems.append(
                f"{self._lag} records wait and the position has not moved for over {STUCK_SECONDS:.0f} s;"
                " restart the process"
            )
        return problems

    async def _probe_database(self) -> bool:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._database.ping()
        except (TransientError, TimeoutError):
            return False
        return True

    async def _probe_broker(self) -> bool:
        if self.consumer is None:
            return False
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self.consumer.topics()
        except (KafkaError, TimeoutError, OSError):
            return False
        return True

    async def _measure(self, consumer: AIOKafkaConsumer) -> None:
        lag = 0
        for tp in consumer.assignment():
            try:
                async with asyncio.timeout(0.2):
                    position: int = await consumer.position(tp)
            except (KafkaError, TimeoutError):
                continue
            behind = max(0, (consumer.highwater(tp) or 0) - position)
            metrics.LAG.labels(tp.topic, self._group, str(tp.partition)).set(behind)
            lag += behind
            if self._positions.get(tp) != position:
                self._positions[tp] = position
                self._last_move = monotonic()
        if lag == 0:
            self._last_move = monotonic()
        self._lag = lag
