"""How far consumer groups are behind, by the broker's own word.

The end of a partition is read from a fetch's high watermark: the embedded broker's answer to "latest offset" points
into the last batch where that holds several records.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from aiokafka import TopicPartition

from lorebus_contracts.topics import TOPICS
from lorebus_kit.cluster import FETCH_MS, BrokerAwayError, partitions_of, reading
from lorebus_kit.guarded_consumer import GuardedConsumer

READ_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A group's place in a partition: the next record that it will acknowledge, the end, and what lies between.

    `committed` is None where it has acknowledged nothing; `oldest_at` is None where nothing waits.
    """

    group: str
    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int
    oldest_at: datetime | None


async def lags(bootstrap_servers: str, *, prefix: str = "") -> tuple[PartitionLag, ...]:
    """Each group's place in each partition of its topics that are there, in order.

    Raises:
        BrokerAwayError: the broker does not answer.
    """
    there = await partitions_of(bootstrap_servers)
    of_groups: dict[str, list[TopicPartition]] = {}
    for topic in TOPICS:
        for group in topic.groups:
            of_groups.setdefault(group, []).extend(there.get(prefix + topic.name, ()))
    found = await asyncio.gather(
        *(_of_group(bootstrap_servers, prefix, group, of_group) for group, of_group in of_groups.items())
    )
    return tuple(one for of_group in found for one in of_group)


async def _of_group(
    servers: str, prefix: str, group: str, partitions: Sequence[TopicPartition]
) -> list[PartitionLag]:
    if not partitions:
        return []
    async with reading(servers, group=prefix + group) as consumer:
        consumer.assign(partitions)
        committed = {tp: await consumer.committed(tp) for tp in partitions}
        heads = await _heads(consumer, {tp: offset or 0 for tp, offset in committed.items()})
    return [_lag(group, prefix, tp, committed[tp], heads[tp]) for tp in partitions]


def _lag(group: str, prefix: str, tp: TopicPartition, committed: int | None, head: "_Head") -> PartitionLag:
    end, oldest = head
    return PartitionLag(
        group=group,
        topic=tp.topic.removeprefix(prefix),
        partition=tp.partition,
        committed=committed,
        end=end,
        # Records that were deleted before the group came to them are not behind it any more.
        lag=0 if oldest is None else end - oldest[0],
        oldest_at=None if oldest is None else oldest[1],
    )


_Head = tuple[int, tuple[int, datetime] | None]
"""A partition's end, and of the first record that waits its offset and time."""


async def _heads(
    consumer: GuardedConsumer, positions: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, _Head]:
    """Of each partition the end and the first record behind the position."""
    for tp, offset in positions.items():
        consumer.seek(tp, offset)
    heads: dict[TopicPartition, _Head] = {}
    deadline = asyncio.get_running_loop().time() + READ_SECONDS
    while waiting := [tp for tp in positions if tp not in heads]:
        if asyncio.get_running_loop().time() > deadline:
            raise BrokerAwayError(f"the broker hands out no records of {waiting[0].topic}")
        fetched = await consumer.getmany(*waiting, timeout_ms=FETCH_MS, max_records=1)
        for tp, records in fetched.items():
            at = datetime.fromtimestamp(records[0].timestamp / 1000, UTC)
            heads[tp] = (consumer.highwater(tp), (records[0].offset, at))
        for tp in waiting:
            end = consumer.highwater(tp)
            if tp not in heads and end is not None and await consumer.position(tp) >= end:
                heads[tp] = (end, None)
    return heads
