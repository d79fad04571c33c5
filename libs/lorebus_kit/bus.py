"""The producer of every process: acks from all in-sync replicas, no idempotent producer, no transactions.

The idempotent producer never times out and can hang on stop; duplicates are absorbed by event_id instead.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from lorebus_contracts.topics import MAX_DEAD_LETTER_BYTES
from lorebus_kit.backoff import Backoff, pause
from lorebus_store.errors import TransientError

PUBLISH_SECONDS: Final = 5.0
GIVEN_UP_SECONDS: Final = 2 * PUBLISH_SECONDS
"""When aiokafka tries a record no more: a request that began just before a record's time was up has as long again."""
_log: Final = logging.getLogger(__name__)

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Record:
    """One record to publish; the topic is named without its prefix."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = field(default=())


class UnconfirmedError(TransientError):
    """The broker has not confirmed a record in time; the client goes on trying for a few seconds more."""

    def __init__(self, message: str, sent: "asyncio.Future[object]") -> None:
        super().__init__(message)
        self._sent = sent

    @property
    def undecided(self) -> bool:
        """Whether the client still tries."""
        return not self._sent.done()

    async def confirmed_late(self) -> bool:
        """Wait until the client has given up (at most 10 s) or has the confirmation after all; true for that."""
        await asyncio.wait({self._sent}, timeout=GIVEN_UP_SECONDS)
        return self._sent.done() and not self._sent.cancelled() and self._sent.exception() is None


class BusProducer:
    """A producer that may be started while the broker is away: it connects when it can.

    Args:
        bootstrap_servers: host:port,host:port.
        topic_prefix: put before each topic's name.
    """

    def __init__(self, bootstrap_servers: str, *, topic_prefix: str = "") -> None:
        self._bootstrap_servers = bootstrap_servers
        self._prefix = topic_prefix
        self._producer: AIOKafkaProducer | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    @property
    def connected(self) -> bool:
        """True once the broker has answered."""
        return self._producer is not None

    async def start(self, *, wait_seconds: float = 2.0) -> None:
        """Begin to connect; return when connected, or after `wait_seconds` while it goes on trying."""
        self._connecting = asyncio.create_task(self._connect(), name="bus-connect")
        await asyncio.wait({self._connecting}, timeout=wait_seconds)

    async def stop(self) -> None:
        """Send what is buffered (at most 5 s) and close."""
        self._stopping.set()
        if self._connecting is not None:
            self._connecting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._connecting
        if self._producer is not None:
            with contextlib.suppress(KafkaError, TimeoutError):
                await asyncio.wait_for(self._producer.stop(), PUBLISH_SECONDS)
            self._producer = None

    async def publish(
        self, topic: str, key: bytes | None, value: bytes | None, *, timeout_seconds: float = PUBLISH_SECONDS
    ) -> None:
        """Publish one record and wait until all in-sync replicas have it.

        Raises:
            TransientError: not confirmed in time; it may still arrive, which its event_id makes harmless.
        """
        (error,) = await self.publish_all([Record(topic, key, value)], timeout_seconds=timeout_seconds)
        if error is not None:
            raise error

    async def publish_all(
        self, records: Sequence[Record], *, timeout_seconds: float = PUBLISH_SECONDS
    ) -> tuple[TransientError | None, ...]:
        """Publish records in the order given, many in flight at once; per record None or why it is not confirmed.

        Behind a record that the client did not take, none of its key is sent, so that the key's order is kept.
        """
        producer = self._producer
        if producer is None:
            return (TransientError("the broker has not answered yet"),) * len(records)
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        pending: list[asyncio.Future[object] | TransientError] = []
        broken: dict[tuple[str, bytes | None], TransientError] = {}
        for record in records:
            key = (record.topic, record.key)
            sent = broken.get(key) or await self._send(producer, record, deadline)
            if isinstance(sent, TransientError):
                broken[key] = sent
            pending.append(sent)
        return tuple([await _confirmed(item, deadline) for item in pending])

    async def _send(
        self, producer: AIOKafkaProducer, record: Record, deadline: float
    ) -> "asyncio.Future[object] | TransientError":
        try:
            async with asyncio.timeout_at(deadline):
                sent: asyncio.Future[object] = await producer.send(
                    self._prefix + record.topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers) or None,
                )
        except (KafkaError, TimeoutError) as error:
            return TransientError(f"the broker did not take a record: {type(error).__name__}")
        sent.add_done_callback(_read_exception)
        return sent

    async def _connect(self) -> None:
        backoff = Backoff(most_seconds=2.0)
        while not self._stopping.is_set():
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap_servers,
                acks="all",
                enable_idempotence=False,
                linger_ms=0,
                request_timeout_ms=int(PUBLISH_SECONDS * 1000),
                max_request_size=MAX_DEAD_LETTER_BYTES,
                retry_backoff_ms=100,
                metadata_max_age_ms=30_000,
            )
            try:
                await producer.start()
                self._producer = producer
            except (KafkaError, OSError) as error:
                _log.warning("broker away", extra={"error_type": type(error).__name__})
            finally:
                # Also when we are told to stop meanwhile: half a producer leaves its tasks behind.
                if self._producer is None:
                    with contextlib.suppress(KafkaError, OSError):
                        await producer.stop()
            if self._producer is not None:
                return
            await pause(backoff.next_seconds(), self._stopping)


async def _confirmed(
    sent: "asyncio.Future[object] | TransientError", deadline: float
) -> TransientError | None:
    if isinstance(sent, TransientError):
        return sent
    try:
        async with asyncio.timeout_at(deadline):
            await asyncio.shield(sent)
    except (KafkaError, TimeoutError) as error:
        return UnconfirmedError(f"the broker did not confirm a record: {type(error).__name__}", sent)
    return None


def _read_exception(sent: "asyncio.Future[object]") -> None:
    """Look at a failure that nobody may wait for any more, so that nobody complains that it was never looked at."""
    if not sent.cancelled():
        sent.exception()
