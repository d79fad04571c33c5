"""Watching a consumer: are its dependencies there, does it move on what lies before it?

`ping` of a client sees the broker only; a consumer whose position stands still while records wait is not alive.
"""

import asyncio
from collections.abc import Callable, Collection
from time import monotonic
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from lorebus_kit import metrics
from lorebus_kit.backoff import pause
from lorebus_kit.delivery import DeliveryState
from lorebus_kit.health import Health
from lorebus_kit.probing import ANSWER_SECONDS, NOT_ASKED, Answering, database_problem

PROBE_SECONDS: Final = 1.0
STUCK_SECONDS: Final = 60.0
BUSY_SECONDS: Final = 120.0


class ConsumerWatch:
    """Probes PostgreSQL and the broker every second and compares positions with the ends of the partitions."""

    def __init__(
        self,
        *,
        state: DeliveryState,
        database: Answering,
        group: str,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._state = state
        self._database = database
        self._group = group
        self._clock = clock
        self.consumer: AIOKafkaConsumer | None = None
        self.consuming = False
        self._database_problem: str | None = NOT_ASKED
        self._broker_there = False
        self._lag = 0
        self._last_move = clock()
        self._positions: dict[TopicPartition, int] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Probe until `stop` is set."""
        while not stop.is_set():
            await self.look()
            await pause(PROBE_SECONDS, stop)

    async def look(self) -> None:
        """Probe once."""
        self._database_problem = await database_problem(self._database)
        self._broker_there = await self._probe_broker()
        if self.consumer is not None:
            await self._measure(self.consumer)

    def health(self) -> Health:
        """What the process says of itself now."""
        state = self._state
        ready = []
        if self._database_problem is not None:
            ready.append(self._database_problem)
        if state.halted:
            # It has left its group, so there is nobody left to ask the broker.
            ready.append(f"halted: {state.halted}")
        elif not self._broker_there:
            ready.append("the broker does not answer; waiting for it")
        elif not self.consuming:
            ready.append("not yet in its consumer group; joining it")
        facts = {
            "group": self._group,
            "lag_records": self._lag,
            "halted": state.halted,
            "waiting_for_dependency": state.waiting_for_dependency,
        }
        return Health(tuple(self._live_problems()), tuple(ready), facts)

    def _live_problems(self) -> list[str]:
        state, now = self._state, self._clock()
        if state.waiting_for_dependency or state.halted or self._database_problem or not self._broker_there:
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
        assigned = consumer.assignment()
        self._forget(set(self._positions) - assigned)
        for tp in assigned:
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
                self._last_move = self._clock()
        if lag == 0:
            self._last_move = self._clock()
        self._lag = lag

    def _forget(self, gone: Collection[TopicPartition]) -> None:
        """Partitions that another member has now: their lag is its to tell."""
        for tp in gone:
            del self._positions[tp]
            metrics.LAG.remove(tp.topic, self._group, str(tp.partition))
