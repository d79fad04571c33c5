"""Making the topics: each with its dead-letter topics, and with room for the largest body that HTTP accepts."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from lorebus_contracts.topics import MAX_DEAD_LETTER_BYTES, MAX_RECORD_BYTES, TOPICS
from lorebus_kit.backoff import Backoff
from lorebus_store.errors import TransientError

DEFAULT_PARTITIONS: Final = 6
TOPIC_DAYS: Final = 7
DEAD_LETTER_DAYS: Final = 30
KNOWN_SECONDS: Final = 10.0
_DAY_MS: Final = 24 * 60 * 60 * 1000
_log: Final = logging.getLogger(__name__)


def topic_names(prefix: str = "") -> tuple[str, ...]:
    """Every topic that must exist, dead letters included."""
    plain = [prefix + topic.name for topic in TOPICS]
    dead = [prefix + topic.dead_letters(group) for topic in TOPICS for group in topic.groups]
    return (*plain, *dead)


def topic_settings(name: str) -> Mapping[str, str]:
    """The broker's settings of a topic: the largest record, and how long records are kept."""
    is_dead = name.endswith(".dlq")
    days = DEAD_LETTER_DAYS if is_dead else TOPIC_DAYS
    most_bytes = MAX_DEAD_LETTER_BYTES if is_dead else MAX_RECORD_BYTES
    return {"max.message.bytes": str(most_bytes), "retention.ms": str(days * _DAY_MS)}


async def apply_topics(
    bootstrap_servers: str,
    *,
    partitions: int = DEFAULT_PARTITIONS,
    replication_factor: int = 1,
    prefix: str = "",
    wait_seconds: float = 30.0,
) -> None:
    """Make the topics that are not there yet; waits for the broker at most `wait_seconds`.

    Raises:
        TransientError: the broker did not answer in time, or refused a topic.
    """
    deadline = asyncio.get_running_loop().time() + wait_seconds
    backoff = Backoff(first_seconds=0.1, most_seconds=1.0)
    while True:
        try:
            await _create(bootstrap_servers, partitions, replication_factor, prefix)
        except (KafkaError, OSError) as error:
            if asyncio.get_running_loop().time() > deadline:
                raise TransientError(f"the topics could not be made: {type(error).__name__}") from error
            _log.info("waiting for the broker", extra={"error_type": type(error).__name__})
            await asyncio.sleep(backoff.next_seconds())
        else:
            return


async def _create(bootstrap_servers: str, partitions: int, replication_factor: int, prefix: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers, request_timeout_ms=10_000)
    try:
        await admin.start()
        there = set(await admin.list_topics())
        missing = [name for name in topic_names(prefix) if name not in there]
        if missing:
            answer = await admin.create_topics(
                [_new_topic(name, partitions, replication_factor) for name in missing]
            )
            for _, code, *_ in answer.topic_errors:
                if code and for_code(code) is not TopicAlreadyExistsError:
                    raise for_code(code)
            await _until_known(admin, frozenset(missing))
    finally:
        with contextlib.suppress(KafkaError, OSError):
            await admin.close()


async def _until_known(admin: AIOKafkaAdminClient, names: frozenset[str]) -> None:
    """Apache Kafka confirms a topic a moment before its brokers tell of it."""
    async with asyncio.timeout(KNOWN_SECONDS):
        while True:
            if names <= set(await admin.list_topics()):
                return
            await asyncio.sleep(0.05)


def _new_topic(name: str, partitions: int, replication_factor: int) -> NewTopic:
    return NewTopic(name, partitions, replication_factor, topic_configs=dict(topic_settings(name)))
