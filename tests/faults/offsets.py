"""How far consumer groups have come, and how many records a topic has, by the broker's own word.

The end of a partition is read from a fetch's high watermark: the embedded broker's answer to "latest offset" points
into the last batch where that holds several records.
"""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition

FETCH_MS: Final = 100


async def lag_of(servers: str, group: str, partitions: Collection[TopicPartition]) -> int:
    """Records that the group has not yet acknowledged; 0 for a group that never acknowledged anything."""
    async with _reading(servers, partitions, group=group) as consumer:
        committed = {tp: await consumer.committed(tp) for tp in partitions}
        if all(offset is None for offset in committed.values()):
            return 0
        ends = await _ends(consumer, {tp: offset or 0 for tp, offset in committed.items()})
        return sum(ends[tp] - (committed[tp] or 0) for tp in partitions)


async def records_in(servers: str, partitions: Collection[TopicPartition]) -> int:
    """How many records these partitions have had."""
    async with _reading(servers, partitions) as consumer:
        return sum((await _ends(consumer, dict.fromkeys(partitions, 0))).values())


@asynccontextmanager
async def _reading(
    servers: str, partitions: Collection[TopicPartition], *, group: str | None = None
) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=FETCH_MS // 4,
    )
    await consumer.start()
    try:
        consumer.assign(partitions)
        yield consumer
    finally:
        await consumer.stop()


async def _ends(
    consumer: AIOKafkaConsumer, positions: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The ends of partitions, told by fetches from these positions."""
    for tp, offset in positions.items():
        consumer.seek(tp, offset)
    ends: dict[TopicPartition, int] = {}
    while len(ends) < len(positions):
        await consumer.getmany(timeout_ms=FETCH_MS, max_records=1)
        ends |= {tp: end for tp in positions if (end := consumer.highwater(tp)) is not None}
    return ends
