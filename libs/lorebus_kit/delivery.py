"""Delivery: at least once on the wire, exactly once in effect. Every consumer's records go through here.

The rules that must not break:
- A partition's offset is committed only past records whose outcome is decided: applied, found done, skipped, or
  dead-lettered with the broker's confirmation. Anything else is rewound and read again.
- One batch is one transaction; a passing fault is waited out and dead-letters nothing.
- This module holds the only broad `except`s of the product.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Final

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError
from opentelemetry.trace import Span

from lorebus_contracts.events import Event
from lorebus_contracts.topics import Topic
from lorebus_contracts.wire import WireError, parse
from lorebus_kit import metrics, tracing
from lorebus_kit.accounting import DeadLettered, Outcome, account
from lorebus_kit.backoff import Backoff, pause
from lorebus_kit.bus import Record, UnconfirmedError
from lorebus_kit.dead_letters import (
    RejectedError,
    UndecodableHeaderError,
    check_headers,
    dead_letter,
    error_text,
)
from lorebus_kit.subscription import Publisher, Subscription, Transactions
from lorebus_kit.verdicts import Applied, Rejected, Verdict
from lorebus_store.acting import Tenants
from lorebus_store.errors import StoreError, TransientError

TRIES_ALONE: Final = 3
HOLD_SECONDS: Final = 60.0
"""How long a batch is held through a passing fault before it is rewound; below the poll interval of 300 s."""
COMMIT_SECONDS: Final = 10.0
STALL_SECONDS: Final = 2.0
"""How long a partition rests when its dead letter could not be published."""

_log: Final = logging.getLogger(__name__)


Background = Callable[[asyncio.Event], Awaitable[None]]
"""Work beside a consumer (relay, workers, sweeper): runs until the event is set."""


async def keep_running(work: Background, stop: asyncio.Event) -> None:
    """Run work beside the consumer; should it fail, say so and begin it again after a growing wait."""
    backoff = Backoff(most_seconds=5.0)
    while not stop.is_set():
        try:
            await work(stop)
        except TransientError as error:
            _log.warning("background work waits", extra={"error_text": str(error)})
        except Exception:  # noqa: BLE001 - The work is part of the harness and must go on.
            _log.exception("background work failed")
        await pause(backoff.next_seconds(), stop)


@dataclass(slots=True)
class _Item:
    """A record on its way: its event once parsed, its outcome once decided."""

    record: ConsumerRecord
    topic: Topic
    event: Event | None = None
    error: Exception | None = None
    outcome: Outcome | None = None

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(self.record.topic, self.record.partition)


@dataclass(slots=True)
class DeliveryState:
    """What health and metrics want to know."""

    waiting_for_dependency: bool = False
    busy_since: float | None = None
    halted: str | None = None
    dead_letters_in_a_row: int = 0
    last_progress: float = field(default_factory=monotonic)


class Delivery:
    """Takes batches of raw records from one consumer and sees each through to its outcome."""

    def __init__(
        self,
        subscription: Subscription,
        *,
        database: Transactions,
        bus: Publisher,
        topic_prefix: str = "",
        dead_letter_limit: int = 50,
        hold_seconds: float = HOLD_SECONDS,
    ) -> None:
        self._subscription = subscription
        self._database = database
        self._bus = bus
        self._limit = dead_letter_limit
        self._hold_seconds = hold_seconds
        self._topics = {topic_prefix + topic.name: topic for topic in subscription.events}
        self._backoff = Backoff()
        self._unconfirmed: dict[tuple[TopicPartition, int], UnconfirmedError] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._give_back = asyncio.Event()
        self.state = DeliveryState()
        metrics.HALTED.labels(subscription.group).set(0)
        metrics.RETRIED.labels(subscription.group)

    async def drain(self) -> None:
        """Wait until the batch in hand is done; one that waits out a fault is given back at once."""
        self._give_back.set()
        try:
            await self._idle.wait()
        finally:
            self._give_back.clear()

    async def process(self, records: Sequence[ConsumerRecord], consumer: AIOKafkaConsumer) -> None:
        """See a batch through: decided records are committed, the others rewound. Never raises."""
        items = [_Item(record, self._topics[record.topic]) for record in records]
        self._idle.clear()
        self.state.busy_since = monotonic()
        try:
            await self._whatever_happens(self._traced(items, consumer))
        finally:
            try:
                await self._whatever_happens(self._settle(items, consumer))
            finally:
                self.state.busy_since = None
                self.state.waiting_for_dependency = False
                self._idle.set()

    async def _whatever_happens(self, step: Awaitable[None]) -> None:
        try:
            await step
        except Exception:  # noqa: BLE001 - Nothing may reach FastStream, which would drop the batch.
            _log.exception("batch rewound", extra={"group": self._subscription.group})

    async def _traced(self, items: Sequence[_Item], consumer: AIOKafkaConsumer) -> None:
        records = [item.record for item in items]
        with tracing.batch(records, group=self._subscription.group) as spans:
            await self._process(items, spans, consumer)
            for item, span in zip(items, spans, strict=True):
                span.set_attribute("lorebus.outcome", _named(item.outcome))

    async def _process(
        self, items: Sequence[_Item], spans: Sequence[Span], consumer: AIOKafkaConsumer
    ) -> None:
        started = monotonic()
        metrics.BATCH_RECORDS.labels(self._subscription.group).observe(len(items))
        for item in items:
            self._read(item)
        known = {
            item.event.event_id: span
            for item, span in zip(items, spans, strict=True)
            if item.event is not None
        }
        with tracing.events(known):
            await self._apply([item for item in items if item.event is not None])
        await self._set_aside(items, consumer)
        metrics.HANDLER_SECONDS.labels(self._subscription.group).observe(monotonic() - started)

    def _read(self, item: _Item) -> None:
        try:
            check_headers(item.record.headers)
            item.event = parse(self._subscription.events[item.topic], item.record.value or b"")
        except (WireError, UndecodableHeaderError) as error:
            item.error = error

    async def _apply(self, items: Sequence[_Item]) -> None:
        """Give all events to the handler in one transaction; if that fails for good, each alone."""
        if not items:
            return
        try:
            await self._through_faults(items)
        except TransientError:
            return
        except Exception as error:  # noqa: BLE001 - Whatever a handler raises, its record must not be lost.
            _log.warning(
                "batch split", extra={"group": self._subscription.group, "error_text": error_text(error)}
            )
            await self._one_by_one(items)

    async def _one_by_one(self, items: Sequence[_Item]) -> None:
        culprits = 0
        for item in items:
            if culprits > self._limit:
                return
            for attempt in range(1, TRIES_ALONE + 1):
                try:
                    await self._through_faults([item])
                except TransientError:
                    return
                except Exception as error:  # noqa: BLE001 - As above.
                    if attempt == TRIES_ALONE:
                        item.error = error
                        culprits += 1
                    else:
                        await pause(0.1 * attempt, self._give_back)
                else:
                    break

    async def _through_faults(self, items: Sequence[_Item]) -> None:
        """Run the transaction, waiting out passing faults.

        Raises:
            TransientError: the fault lasts longer than a batch may be held, or the partitions move away.
        """
        held_until = monotonic() + self._hold_seconds
        while True:
            try:
                await self._transaction(items)
            except TransientError as error:
                self.state.waiting_for_dependency = True
                metrics.RETRIED.labels(self._subscription.group).inc()
                delay = self._backoff.next_seconds()
                _log.warning(
                    "waiting for a dependency",
                    extra={
                        "group": self._subscription.group,
                        "error_text": str(error),
                        "delay_seconds": delay,
                    },
                )
                if await pause(delay, self._give_back) or monotonic() > held_until:
                    raise
            else:
                self.state.waiting_for_dependency = False
                self._backoff.reset()
                return

    async def _transaction(self, items: Sequence[_Item]) -> None:
        verdicts = await self._handled([item.event for item in items if item.event is not None])
        now = datetime.now(UTC)
        for item, verdict in zip(items, verdicts, strict=True):
            if isinstance(verdict, Rejected):
                item.error = RejectedError(verdict.reason)
                continue
            item.outcome = verdict
            if isinstance(verdict, Applied) and item.event is not None:
                seconds = max(0.0, (now - item.event.occurred_at).total_seconds())
                metrics.END_TO_END_SECONDS.labels(item.topic.name, self._subscription.group).observe(seconds)
        self._subscription.after_commit()

    async def _handled(self, events: Sequence[Event]) -> Sequence[Verdict]:
        begun = False
        try:
            tenants = Tenants.of_all(event.organization_uuid for event in events)
            async with self._database.begin(tenants) as connection:
                begun = True
                verdicts = await self._subscription.handler(connection, events)
                if len(verdicts) != len(events):
                    # Raised inside, so that an effect nobody could account for is rolled back.
                    raise AssertionError(f"a handler gave {len(verdicts)} verdicts on {len(events)} events")
        except StoreError as error:
            if begun:
                raise
            # A changed password or a missing database is no fault of the events.
            raise TransientError(f"no transaction could be begun: {error}") from error
        return verdicts

    async def _set_aside(self, items: Sequence[_Item], consumer: AIOKafkaConsumer) -> None:
        """Dead-letter, in order, what cannot be handled; a run of them beyond the limit halts the consumer.

        Nothing behind an undecided record: it is read again with that one, and would have two dead letters.
        """
        passed_by: set[TopicPartition] = set()
        for item in items:
            if item.outcome is not None:
                self.state.dead_letters_in_a_row = 0
            elif item.partition in passed_by:
                continue
            elif item.error is None:
                passed_by.add(item.partition)
            elif self.state.dead_letters_in_a_row >= self._limit:
                self._halt(item.error)
                return
            elif not await self._publish_dead_letter(item, item.error):
                passed_by.add(item.partition)
                _rest(consumer, item.partition)

    async def _publish_dead_letter(self, item: _Item, error: Exception) -> bool:
        group = self._subscription.group
        letter = dead_letter(item.record, topic=item.topic.dead_letters(group), group=group, error=error)
        if not await self._publish_once(item, letter):
            _log.warning("dead letter not published", extra={"group": group, "topic": letter.topic})
            return False
        self.state.dead_letters_in_a_row += 1
        item.outcome = DeadLettered(_reason(error))
        await self._note_failure(item, error)
        _log.error(
            "dead-lettered",
            extra={
                "group": group,
                "topic": item.topic.name,
                "partition": item.record.partition,
                "offset": item.record.offset,
                "event_id": None if item.event is None else str(item.event.event_id),
                "error_type": type(error).__name__,
                "error_text": error_text(error),
            },
        )
        return True

    async def _publish_once(self, item: _Item, letter: Record) -> bool:
        """Publish the letter, unless an earlier one of this record may still come through or has done so."""
        place = (item.partition, item.record.offset)
        earlier = self._unconfirmed.get(place)
        if earlier is not None and earlier.undecided:
            return False
        self._unconfirmed.pop(place, None)
        if earlier is not None and await earlier.confirmed_late():
            return True
        (failed,) = await self._bus.publish_all([letter])
        if isinstance(failed, UnconfirmedError):
            self._unconfirmed[place] = failed
        return failed is None

    async def _note_failure(self, item: _Item, error: Exception) -> None:
        """Best effort: the dead letter is the truth, the run's state tells whoever asks for it."""
        if item.event is None:
            return
        try:
            async with self._database.begin(Tenants.of(item.event.organization_uuid)) as connection:
                await self._subscription.record_failure(connection, item.event, error)
        except StoreError as refused:
            _log.warning("failure not noted on its run", extra={"error_text": str(refused)})

    def _halt(self, error: Exception) -> None:
        reason = (
            f"{self.state.dead_letters_in_a_row} records in a row could not be handled, the next one because of"
            f" {type(error).__name__}: {error_text(error)}; nothing is lost, mend the cause and restart"
        )
        self.state.halted = reason
        metrics.HALTED.labels(self._subscription.group).set(1)
        _log.critical("consumer halted", extra={"group": self._subscription.group, "reason": reason})

    async def _settle(self, items: Sequence[_Item], consumer: AIOKafkaConsumer) -> None:
        """Commit each partition up to its first undecided record and rewind to that one."""
        assigned = consumer.assignment()
        commits: dict[TopicPartition, int] = {}
        undecided: set[TopicPartition] = set()
        for item in items:
            tp = item.partition
            if tp in undecided or tp not in assigned:
                continue
            if item.outcome is None:
                undecided.add(tp)
                consumer.seek(tp, item.record.offset)
                continue
            commits[tp] = item.record.offset + 1
            account(
                item.outcome, topic=item.topic.name, group=self._subscription.group, partition=tp.partition
            )
        if commits:
            self.state.last_progress = monotonic()
            await self._commit(commits, consumer)

    async def _commit(self, commits: Mapping[TopicPartition, int], consumer: AIOKafkaConsumer) -> None:
        """Commit; where that fails, the records come again and are found done."""
        try:
            async with asyncio.timeout(COMMIT_SECONDS):
                await consumer.commit(dict(commits))
        except (KafkaError, TimeoutError) as error:
            _log.warning(
                "offsets not committed",
                extra={"group": self._subscription.group, "error_type": type(error).__name__},
            )


def _named(outcome: Outcome | None) -> str:
    return "Undecided" if outcome is None else type(outcome).__name__


def _reason(error: Exception) -> str:
    """A label from a closed set: our own reasons, else the error's type."""
    return str(error) if isinstance(error, RejectedError) else type(error).__name__


def _rest(consumer: AIOKafkaConsumer, tp: TopicPartition) -> None:
    """Let one partition rest, so that the others go on meanwhile."""
    consumer.pause(tp)
    asyncio.get_running_loop().call_later(STALL_SECONDS, _resume, consumer, tp)


def _resume(consumer: AIOKafkaConsumer, tp: TopicPartition) -> None:
    if tp in consumer.assignment():
        consumer.resume(tp)
