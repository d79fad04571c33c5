"""Reading partitions from their beginning to where they end now, for a person who looks for something."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Final, TypeVar

from aiokafka import ConsumerRecord, TopicPartition

from lorebus_kit.cluster import FETCH_MS, BrokerAwayError, reading

PlaceT = TypeVar("PlaceT")

SILENCE_SECONDS: Final = 30.0
RECORDS_A_FETCH: Final = 200


@asynccontextmanager
async def read_all(
    bootstrap_servers: str, places: Mapping[TopicPartition, PlaceT]
) -> AsyncIterator[AsyncIterator[tuple[PlaceT, ConsumerRecord]]]:
    """All records of these partitions that are there now, of each partition in order, with what it is named by.

    Whoever has found enough may leave; the client is closed then.

    Raises:
        BrokerAwayError: the broker does not answer.
    """
    async with aclosing(_records(bootstrap_servers, places)) as records:
        yield records


async def _records(
    bootstrap_servers: str, places: Mapping[TopicPartition, PlaceT]
) -> AsyncGenerator[tuple[PlaceT, ConsumerRecord], None]:
    if not places:
        return
    async with reading(bootstrap_servers) as consumer:
        consumer.assign(list(places))
        await consumer.seek_to_beginning(*places)
        waiting = set(places)
        silent_since = asyncio.get_running_loop().time()
        while waiting:
            fetched = await consumer.getmany(*waiting, timeout_ms=FETCH_MS, max_records=RECORDS_A_FETCH)
            for tp, records in fetched.items():
                silent_since = asyncio.get_running_loop().time()
                for record in records:
                    yield places[tp], record
            for tp in tuple(waiting):
                end = consumer.highwater(tp)
                if end is not None and await consumer.position(tp) >= end:
                    waiting.discard(tp)
            if asyncio.get_running_loop().time() - silent_since > SILENCE_SECONDS:
                raise BrokerAwayError(f"the broker hands out no records of {next(iter(waiting)).topic}")
