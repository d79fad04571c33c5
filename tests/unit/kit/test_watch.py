"""What a consumer says of its health: alive while it moves or waits for what is away, ready once it has joined."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError

from lorebus_kit import metrics
from lorebus_kit.delivery import DeliveryState
from lorebus_kit.watch import ConsumerWatch
from lorebus_store.errors import TransientError
from lorebus_store.logins import UnheldLoginError

TP = TopicPartition("memory.prune-requested", 0)
OTHER = TopicPartition("memory.prune-requested", 1)


@dataclass
class Answers:
    """A database that answers or does not."""

    there: bool = True
    holds_its_login: bool = True

    async def ping(self) -> None:
        if not self.there:
            raise TransientError("away")
        if not self.holds_its_login:
            raise UnheldLoginError("the login is a superuser")


@dataclass
class Consumer:
    """A consumer at a position, with so much before it."""

    positions: dict[TopicPartition, int] = field(default_factory=lambda: {TP: 10})
    ends: dict[TopicPartition, int] = field(default_factory=lambda: {TP: 10})
    broker_there: bool = True

    def assignment(self) -> set[TopicPartition]:
        return set(self.positions)

    async def position(self, tp: TopicPartition) -> int:
        return self.positions[tp]

    def highwater(self, tp: TopicPartition) -> int | None:
        return self.ends.get(tp)

    async def topics(self) -> set[str]:
        if not self.broker_there:
            raise KafkaConnectionError
        return {"memory.prune-requested"}


class Watched:
    """A watch with everything around it, and a clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.state = DeliveryState(last_progress=1000.0)
        self.database = Answers()
        self.consumer = Consumer()
        self.watch = ConsumerWatch(
            state=self.state, database=self.database, group="lorebus.prune", clock=lambda: self.now
        )
        self.watch.consumer = self.consumer
        self.watch.consuming = True

    async def look(self) -> None:
        """One round of probes."""
        await self.watch.look()

    @property
    def live(self) -> tuple[str, ...]:
        return self.watch.health().live_problems

    @property
    def ready(self) -> tuple[str, ...]:
        return self.watch.health().ready_problems


@pytest.fixture
def watched() -> Watched:
    return Watched()


async def test_a_consumer_with_nothing_before_it_is_alive_and_ready_for_ever(watched: Watched) -> None:
    await watched.look()
    watched.now += 3600
    await watched.look()
    assert (watched.live, watched.ready) == ((), ())


async def test_a_position_that_stands_still_while_records_wait_is_not_alive(watched: Watched) -> None:
    watched.consumer.ends[TP] = 12
    await watched.look()
    watched.now += 59
    await watched.look()
    assert watched.live == ()
    watched.now += 2
    await watched.look()
    assert len(watched.live) == 1
    assert watched.live[0].startswith("2 records wait and the position has not moved")


async def test_a_position_that_moves_is_alive_however_much_waits(watched: Watched) -> None:
    watched.consumer.ends[TP] = 1_000_000
    for _ in range(10):
        watched.now += 30
        watched.consumer.positions[TP] += 1
        await watched.look()
    assert watched.live == ()


@pytest.mark.parametrize("away", ["database", "broker"])
async def test_whoever_waits_for_what_is_away_is_alive_but_not_ready(watched: Watched, away: str) -> None:
    watched.consumer.ends[TP] = 12
    await watched.look()
    watched.database.there = away != "database"
    watched.consumer.broker_there = away != "broker"
    watched.now += 3600
    await watched.look()
    assert watched.live == ()
    (problem,) = watched.ready
    assert "does not answer" in problem


async def test_a_batch_that_waits_for_a_dependency_is_no_stuck_one(watched: Watched) -> None:
    watched.consumer.ends[TP] = 12
    await watched.look()
    watched.now += 3600
    await watched.look()
    watched.state.waiting_for_dependency = True
    assert watched.live == ()


async def test_a_batch_in_hand_for_two_minutes_is_not_alive(watched: Watched) -> None:
    await watched.look()
    watched.state.busy_since = watched.now
    watched.now += 119
    assert watched.live == ()
    watched.now += 2
    assert len(watched.live) == 1
    assert watched.live[0].startswith("one batch has been in hand")


async def test_a_halted_consumer_is_alive_and_says_what_to_do(watched: Watched) -> None:
    watched.consumer.ends[TP] = 12
    await watched.look()
    watched.state.halted = "50 records in a row could not be handled"
    watched.now += 3600
    assert watched.live == ()
    assert watched.ready == ("halted: 50 records in a row could not be handled",)


async def test_a_consumer_that_has_not_joined_is_not_ready(watched: Watched) -> None:
    await watched.look()
    watched.watch.consuming = False
    assert watched.ready == ("not yet in its consumer group; joining it",)


async def test_a_login_that_row_level_security_does_not_hold_is_said_and_nobody_is_ready(
    watched: Watched,
) -> None:
    watched.watch.consuming = True
    watched.database.holds_its_login = False
    await watched.look()
    assert (watched.live, watched.ready) == ((), ("the login is a superuser",))


async def test_the_lag_of_a_partition_that_moved_away_is_no_longer_told(watched: Watched) -> None:
    watched.consumer.positions[OTHER], watched.consumer.ends[OTHER] = 1, 8
    await watched.look()
    assert lag_of(OTHER) == 7.0
    del watched.consumer.positions[OTHER]
    await watched.look()
    assert lag_of(OTHER) is None
    assert lag_of(TP) == 0.0
    assert watched.watch.health().facts["lag_records"] == 0


def lag_of(tp: TopicPartition) -> float | None:
    labels: dict[str, Any] = {"topic": tp.topic, "group": "lorebus.prune", "partition": str(tp.partition)}
    return metrics.REGISTRY.get_sample_value("lorebus_lag_records", labels)
