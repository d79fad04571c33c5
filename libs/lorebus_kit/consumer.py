"""A consumer as a process: FastStream's broker and subscriber, with every record given to `Delivery`.

No subscriber of the product is declared anywhere else. FastStream's defaults would lose data: it acknowledges
first, starts at the latest offset, swallows what a parser raises and answers to a record's `reply_to`.
"""

import asyncio
import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import KafkaError
from faststream import AckPolicy
from faststream.kafka import KafkaBroker, KafkaMessage

from lorebus_contracts.topics import MAX_RECORD_BYTES
from lorebus_kit.backoff import Backoff, pause
from lorebus_kit.bus import BusProducer
from lorebus_kit.delivery import Background, Delivery, keep_running
from lorebus_kit.guarded_consumer import GuardedConsumer
from lorebus_kit.health import HealthServer
from lorebus_kit.settings import ConsumerSettings
from lorebus_kit.stopping import on_stop_signal
from lorebus_kit.subscription import Subscription
from lorebus_kit.watch import ConsumerWatch
from lorebus_store.database import Database

STOP_SECONDS: Final = 12.0
"""How long a stop waits for the batch in hand and for leaving the group."""
BESIDE_SECONDS: Final = 10.0
"""How long it waits then for relay and workers to finish what they have in hand."""
POLL_SECONDS: Final = 300.0
_log: Final = logging.getLogger(__name__)


class ConsumerProcess:
    """One consumer with its health server and the work beside it."""

    def __init__(
        self,
        settings: ConsumerSettings,
        subscription: Subscription,
        *,
        database: Database,
        bus: BusProducer,
        background: Sequence[Background] = (),
    ) -> None:
        self._settings = settings
        self._subscription = subscription
        self._database = database
        self._bus = bus
        self._background = background
        self._stop = asyncio.Event()
        self._leaving = False
        self._delivery = Delivery(
            subscription,
            database=database,
            bus=bus,
            topic_prefix=settings.topic_prefix,
            dead_letter_limit=settings.dead_letter_limit,
        )
        self._watch = ConsumerWatch(state=self._delivery.state, database=database, group=subscription.group)

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT; then finish the batch in hand and leave.

        Raises:
            OSError: the health port is taken.
        """
        on_stop_signal(lambda _: self._stop.set())
        health = HealthServer(
            self._watch.health, host=self._settings.health_host, port=self._settings.health_port
        )
        await health.start()
        await self._bus.start(wait_seconds=0.0)
        beside = [
            asyncio.create_task(keep_running(work, self._stop))
            for work in (self._watch.run, *self._background)
        ]
        try:
            await self._consume()
        finally:
            self._stop.set()
            await asyncio.wait(beside, timeout=BESIDE_SECONDS)
            for task in beside:
                task.cancel()
            await self._bus.stop()
            await health.stop()
            await self._database.dispose()
        _log.info("stopped")

    async def _consume(self) -> None:
        backoff = Backoff(most_seconds=5.0)
        while not self._stop.is_set() and self._delivery.state.halted is None:
            broker = self._broker()
            self._leaving = False
            try:
                await broker.start()
            except (KafkaError, OSError) as error:
                _log.warning("waiting for the broker", extra={"error_type": type(error).__name__})
                await self._leave(broker)
                await pause(backoff.next_seconds(), self._stop)
                continue
            _log.info("consuming", extra={"group": self._subscription.group})
            self._watch.consuming = True
            await self._until_stopped_or_halted()
            self._watch.consuming = False
            await self._leave(broker)
        await self._stop.wait()

    async def _until_stopped_or_halted(self) -> None:
        while self._delivery.state.halted is None:
            if await pause(0.25, self._stop):
                return

    async def _leave(self, broker: KafkaBroker) -> None:
        """Give back what waits, finish what runs, leave the group; a broker that is away cannot hold us."""
        self._leaving = True
        drained = asyncio.create_task(self._delivery.drain())
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await drained
                await broker.stop()
        except (KafkaError, TimeoutError, OSError) as error:
            _log.warning("left without a farewell", extra={"error_type": type(error).__name__})
        self._watch.consumer = None

    def _broker(self) -> KafkaBroker:
        settings = self._settings
        broker = KafkaBroker(
            settings.bootstrap_servers.split(","),
            client_id=f"lorebus-{self._subscription.group}",
            logger=None,
            consumer_only=True,
            allow_auto_create_topics=False,
            graceful_timeout=STOP_SECONDS,
            # Shared with the consumer, where it must be above the rebalance timeout.
            request_timeout_ms=int((settings.rebalance_timeout_seconds + 10) * 1000),
            metadata_max_age_ms=10_000,
            retry_backoff_ms=100,
        )
        subscriber = broker.subscriber(
            *(settings.topic_prefix + topic.name for topic in self._subscription.events),
            group_id=settings.topic_prefix + self._subscription.group,
            batch=True,
            max_records=min(settings.batch_records, self._subscription.most_records),
            batch_timeout_ms=max(1, int(settings.batch_wait.total_seconds() * 1000)),
            auto_offset_reset="earliest",
            ack_policy=AckPolicy.MANUAL,
            no_reply=True,
            session_timeout_ms=int(settings.session_timeout_seconds * 1000),
            heartbeat_interval_ms=int(settings.session_timeout_seconds * 1000 / 4),
            rebalance_timeout_ms=int(settings.rebalance_timeout_seconds * 1000),
            max_poll_interval_ms=int(POLL_SECONDS * 1000),
            fetch_max_wait_ms=100,
            max_partition_fetch_bytes=MAX_RECORD_BYTES,
            # What is fetched ahead waits in memory; a record that is longer comes alone.
            fetch_max_bytes=MAX_RECORD_BYTES,
            listener=_DrainOnRevoke(self._delivery),
            parser=self._parse,
            decoder=_decode_nothing,
        )
        subscriber(self._on_batch)
        _build_guarded_consumers(broker, self._adopt)
        return broker

    def _adopt(self, consumer: GuardedConsumer) -> GuardedConsumer:
        self._watch.consumer = consumer
        return consumer

    async def _parse(self, records: tuple[ConsumerRecord, ...]) -> KafkaMessage:
        """Wrap the raw batch and look at nothing: whatever a parser raises, FastStream swallows with its batch."""
        consumer = self._watch.consumer
        if consumer is None:
            raise AssertionError("records come from a consumer that was adopted when it was built")
        return KafkaMessage(raw_message=records, body=b"", headers={}, consumer=consumer)

    async def _on_batch(self, message: KafkaMessage) -> None:
        records = message.raw_message
        consumer = self._watch.consumer
        if not isinstance(records, tuple) or consumer is None:
            raise AssertionError("a batch subscriber hands out tuples of records")
        if self._delivery.state.halted is None and not self._leaving:
            # Else nothing is committed: whoever has the partition next reads the batch.
            await self._delivery.process(records, consumer)


class _DrainOnRevoke(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka ships no types.
    """Lets the batch in hand finish before its partitions move to another member."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        if revoked:
            await self._delivery.drain()

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        _log.info("partitions assigned", extra={"partitions": sorted(f"{t}:{p}" for t, p in assigned)})


async def _decode_nothing(_message: KafkaMessage) -> None:
    return None


def _build_guarded_consumers(
    broker: KafkaBroker, adopt: Callable[[GuardedConsumer], GuardedConsumer]
) -> None:
    """Make the broker build guarded consumers; its own builder is set anew at each connect."""
    config: Any = broker.config.broker_config
    connect = config.connect

    async def connect_guarded(**settings: object) -> None:
        await connect(**settings)
        options = config.builder.keywords
        config.builder = lambda **more: adopt(functools.partial(GuardedConsumer, **options)(**more))

    config.connect = connect_guarded
