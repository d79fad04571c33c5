"""The guarded consumer on a real broker: bad bytes on one partition cost no record of any."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import CorruptRecordException, KafkaError

from lorebus_contracts.topics import PRUNE_REQUESTED
from lorebus_kit.guarded_consumer import GuardedConsumer, GuardedRecords
from tests.support.poison import MARKED_NAME, undecodable_names
from tests.support.waiting import until
from tests.support.wire import Wire

TOPIC = PRUNE_REQUESTED.name


@pytest.fixture
async def wire(bootstrap_servers: str, topics: str) -> AsyncIterator[Wire]:
    async with Wire(bootstrap_servers, topics) as opened:
        yield opened


@pytest.fixture
async def consumer(bootstrap_servers: str, topics: str) -> AsyncIterator[GuardedConsumer]:
    made = GuardedConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest")
    made.assign([TopicPartition(topics + TOPIC, partition) for partition in (0, 1)])
    await made.start()
    yield made
    await made.stop()


async def read(
    consumer: GuardedConsumer, count: int, *, max_records: int | None = None
) -> list[ConsumerRecord]:
    """So many records, in the order in which they were handed out; a call may fail in between."""
    found: list[ConsumerRecord] = []
    for _ in range(1000):
        try:
            fetched = await consumer.getmany(timeout_ms=20, max_records=max_records)
        except KafkaError:
            continue
        found += [record for records in fetched.values() for record in records]
        if len(found) >= count:
            break
    return found


def offsets(records: list[ConsumerRecord], partition: int) -> list[int]:
    return [record.offset for record in records if record.partition == partition]


async def fetched(consumer: GuardedConsumer, tp: TopicPartition) -> None:
    """Wait until records of the partition have arrived, which nobody has taken yet."""
    await until(lambda: tp in consumer._fetcher._records, what="the partition is fetched")


async def send_with_bad_names(wire: Wire, *, bad: set[int]) -> None:
    """Ten records a partition; those of partition 1 at these offsets have a header name that is not UTF-8."""
    for offset in range(10):
        await wire.send_raw(TOPIC, b"sound", partition=0)
        with undecodable_names():
            headers = [(MARKED_NAME, b"x")] if offset in bad else []
            await wire.send_raw(TOPIC, b"value %d" % offset, partition=1, headers=headers)


@pytest.mark.parametrize("max_records", [None, 1, 3, 500])
async def test_records_with_bad_names_come_out_in_their_places_and_those_of_other_partitions_too(
    wire: Wire, consumer: GuardedConsumer, max_records: int | None
) -> None:
    await send_with_bad_names(wire, bad={0, 4, 5, 9})
    records = await read(consumer, 20, max_records=max_records)
    assert offsets(records, 0) == list(range(10))
    assert offsets(records, 1) == list(range(10))
    bad = [record.offset for record in records if record.headers]
    assert bad == [0, 4, 5, 9]
    assert [record.value for record in records if record.partition == 1] == [
        b"value %d" % offset for offset in range(10)
    ]


async def test_a_consumer_that_begins_in_the_middle_of_a_batch_with_a_bad_name_begins_there(
    wire: Wire, consumer: GuardedConsumer, topics: str
) -> None:
    await send_with_bad_names(wire, bad={3, 7})
    consumer.seek(TopicPartition(topics + TOPIC, 0), 10)
    consumer.seek(TopicPartition(topics + TOPIC, 1), 6)
    assert offsets(await read(consumer, 4), 1) == [6, 7, 8, 9]


@contextmanager
def damage(value: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The batch that holds `value` arrives damaged once."""
    intact = GuardedRecords.next_batch
    damaged: list[bytes] = []

    def next_batch(records: GuardedRecords) -> Any:  # noqa: ANN401 - As aiokafka's own.
        start = records._start
        batch = intact(records)
        if value in bytes(records._raw[start : records._start]) and not damaged:
            damaged.append(value)
            raise CorruptRecordException
        return batch

    with monkeypatch.context() as patched:
        patched.setattr(GuardedRecords, "next_batch", next_batch)
        yield
    assert damaged == [value]


async def test_a_batch_that_arrives_damaged_costs_no_record_of_any_partition(
    wire: Wire, consumer: GuardedConsumer, topics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    intact, damaged = (TopicPartition(topics + TOPIC, partition) for partition in (0, 1))
    consumer.pause(intact, damaged)
    await send_with_bad_names(wire, bad=set())
    # The call that meets the damage has taken the other partition's records already.
    for tp in (intact, damaged):
        consumer.resume(tp)
        await fetched(consumer, tp)
    with damage(b"value 6", monkeypatch):
        records = await read(consumer, 20)
    assert offsets(records, 0) == list(range(10))
    assert offsets(records, 1) == list(range(10))
