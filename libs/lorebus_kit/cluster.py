"""The broker as an operator asks it: which topics there are, of which form, and how to reach it.

The rule that must not break: only topics that are there are asked about by name, because some brokers make a topic
that somebody asks for.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError

from lorebus_kit.guarded_consumer import GuardedConsumer
from lorebus_store.errors import TransientError

ANSWER_SECONDS: Final = 10.0
FETCH_MS: Final = 100


class BrokerAwayError(TransientError):
    """The broker cannot be reached, or does not answer."""


@dataclass(frozen=True, slots=True)
class TopicForm:
    """How a topic was made: its partitions, and of how many copies its worst partition is made."""

    partitions: int
    replicas: int


@contextmanager
def broker_errors(bootstrap_servers: str) -> Iterator[None]:
    """Raise what the Kafka client says inside the block as one error of ours.

    Raises:
        BrokerAwayError: the broker does not answer, or refuses.
    """
    try:
        yield
    except (KafkaError, OSError, TimeoutError) as error:
        raise BrokerAwayError(f"the broker at {bootstrap_servers}: {type(error).__name__}") from error


@asynccontextmanager
async def administering(bootstrap_servers: str) -> AsyncIterator[AIOKafkaAdminClient]:
    """A client that asks about topics, and changes them.

    Raises:
        BrokerAwayError: as `broker_errors`.
    """
    with broker_errors(bootstrap_servers):
        admin = AIOKafkaAdminClient(
            bootstrap_servers=bootstrap_servers, request_timeout_ms=int(ANSWER_SECONDS * 1000)
        )
        try:
            async with asyncio.timeout(2 * ANSWER_SECONDS):
                await admin.start()
            yield admin
        finally:
            with contextlib.suppress(KafkaError, OSError):
                await admin.close()


async def brokers_told(bootstrap_servers: str) -> tuple[tuple[str, int], ...]:
    """Host and port of each broker to which the first that answers sends its clients; none of them is asked.

    Raises:
        BrokerAwayError: as `broker_errors`.
    """
    with broker_errors(bootstrap_servers):
        client = AIOKafkaClient(
            bootstrap_servers=bootstrap_servers, request_timeout_ms=int(ANSWER_SECONDS * 1000)
        )
        try:
            async with asyncio.timeout(2 * ANSWER_SECONDS):
                await client.bootstrap()
            return tuple((broker.host, broker.port) for broker in client.cluster.brokers())
        finally:
            await client.close()


async def topics_there(admin: AIOKafkaAdminClient) -> Mapping[str, TopicForm]:
    """Every topic of the broker by its whole name."""
    return {
        told["topic"]: TopicForm(
            len(told["partitions"]), min((len(one["replicas"]) for one in told["partitions"]), default=0)
        )
        for told in await admin.describe_topics()
    }


async def partitions_of(bootstrap_servers: str) -> Mapping[str, tuple[TopicPartition, ...]]:
    """The partitions of every topic by its whole name.

    Raises:
        BrokerAwayError: as `broker_errors`.
    """
    async with administering(bootstrap_servers) as admin:
        there = await topics_there(admin)
    return {
        name: tuple(TopicPartition(name, number) for number in range(form.partitions))
        for name, form in there.items()
    }


@asynccontextmanager
async def reading(bootstrap_servers: str, *, group: str | None = None) -> AsyncIterator[GuardedConsumer]:
    """A consumer that is given its partitions and commits nothing; with `group` it knows how far that one is.

    Raises:
        BrokerAwayError: as `broker_errors`.
    """
    with broker_errors(bootstrap_servers):
        consumer = GuardedConsumer(
            bootstrap_servers=bootstrap_servers,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=FETCH_MS // 2,
            request_timeout_ms=int(ANSWER_SECONDS * 1000),
        )
        try:
            async with asyncio.timeout(2 * ANSWER_SECONDS):
                await consumer.start()
            yield consumer
        finally:
            await consumer.stop()
