"""A record that the broker confirms too late, or that the client never took."""

import asyncio
from collections.abc import Sequence
from typing import Final

import pytest
from aiokafka.errors import KafkaTimeoutError

from lorebus_kit.acceptance import AcceptMode, Acceptor
from lorebus_kit.bus import BusProducer, Record, UnconfirmedError
from lorebus_store.database import Database
from lorebus_store.errors import TransientError
from tests.support.events import new_scope, save
from tests.unit.kit.delivery_fakes import LEFT, FakeConsumer, FakeDatabase, FakeHandler, delivery_of, poison

NOWHERE: Final = "postgresql://nobody@127.0.0.1:9/none"
"""Nothing listens there: the store is away."""


class LateBus:
    """A bus that confirms nothing in time; what becomes of the record is the test's to say."""

    connected = True

    def __init__(self) -> None:
        self.fate: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.asked = asyncio.Event()
        self.published = 0

    async def publish_all(
        self, records: Sequence[Record], *, timeout_seconds: float = 0.0
    ) -> Sequence[TransientError | None]:
        del timeout_seconds
        self.asked.set()
        self.published += len(records)
        return [UnconfirmedError("not in time", self.fate) for _ in records]


async def accepting(bus: LateBus) -> "asyncio.Task[None]":
    """An acceptance under way, of which the bus was asked."""
    acceptor = Acceptor(Database(NOWHERE), bus, mode=AcceptMode.BUS, wake_relay=lambda: None)
    task = asyncio.create_task(acceptor.accept(save(new_scope(), "a lesson")))
    await bus.asked.wait()
    return task


async def test_what_the_bus_confirms_after_the_store_refused_it_is_accepted() -> None:
    bus = LateBus()
    task = await accepting(bus)

    bus.fate.set_result("confirmed")

    await task


async def test_what_neither_took_is_refused_only_when_the_bus_holds_it_no_more() -> None:
    bus = LateBus()
    task = await accepting(bus)
    done, _ = await asyncio.wait({task}, timeout=0.2)
    assert done == set()

    bus.fate.set_exception(KafkaTimeoutError())

    with pytest.raises(TransientError):
        await task


async def test_a_dead_letter_is_not_sent_again_while_it_may_come_through_nor_when_it_did() -> None:
    bus, consumer = LateBus(), FakeConsumer()
    delivery = delivery_of(FakeHandler(), database=FakeDatabase(), bus=bus)
    await delivery.process([poison(0)], consumer)
    await delivery.process([poison(0)], consumer)
    assert (bus.published, consumer.commits) == (1, [])

    bus.fate.set_result("confirmed")
    await delivery.process([poison(0)], consumer)

    assert (bus.published, consumer.commits) == (1, [{LEFT: 1}])


async def test_a_dead_letter_that_the_client_gave_up_is_sent_again() -> None:
    bus, consumer = LateBus(), FakeConsumer()
    delivery = delivery_of(FakeHandler(), database=FakeDatabase(), bus=bus)
    await delivery.process([poison(0)], consumer)

    bus.fate.set_exception(KafkaTimeoutError())
    await delivery.process([poison(0)], consumer)

    assert (bus.published, consumer.commits) == (2, [])


class FullProducer:
    """A client that takes no record of one value, as when the batch of its partition is full and large ones wait."""

    def __init__(self) -> None:
        self.taken: list[tuple[bytes, bytes]] = []

    async def send(
        self, _topic: str, *, value: bytes, key: bytes, headers: object
    ) -> "asyncio.Future[object]":
        del headers
        if value == b"large":
            raise KafkaTimeoutError
        self.taken.append((key, value))
        sent: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        sent.set_result(None)
        return sent


async def test_behind_a_record_that_was_not_taken_none_of_its_key_is_sent() -> None:
    producer = FullProducer()
    bus = BusProducer("127.0.0.1:9")
    bus._producer = producer

    errors = await bus.publish_all(
        [
            Record("topic", b"one", b"first"),
            Record("topic", b"one", b"large"),
            Record("topic", b"one", b"behind"),
            Record("topic", b"two", b"other"),
        ]
    )

    assert [error is None for error in errors] == [True, False, False, True]
    assert producer.taken == [(b"one", b"first"), (b"two", b"other")]
