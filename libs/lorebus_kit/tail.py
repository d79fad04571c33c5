"""The live tail: one reader of `memory.changed` a process, and whoever listens to it.

The rules that must not break: nobody hears of another organization; a listener that is slow or gone holds up nobody
else. There is no consumer group, because every process reads everything, and nothing is read while nobody listens.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Final, TypeAlias
from uuid import UUID

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from lorebus_contracts.events import ChangeKind, MemoryChanged
from lorebus_contracts.topics import MAX_RECORD_BYTES, MEMORY_CHANGED
from lorebus_contracts.wire import WireError, parse
from lorebus_kit.backoff import Backoff, pause
from lorebus_kit.guarded_consumer import GuardedConsumer
from lorebus_kit.tail_history import HISTORY_RECORDS, Change, History, Place

QUEUED_CHANGES: Final = 1_000
"""How far a listener may be behind before it is dropped."""
LINGER_SECONDS: Final = 30.0
"""How long the topic is read on when nobody listens any more: a listener that reconnects finds its history."""
POLL_MS: Final = 500
_CATCH_UP_SECONDS: Final = 5.0
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which changes somebody listens for; None is any."""

    organization_uuid: UUID
    agent_config_uuid: UUID | None = None
    kind: ChangeKind | None = None

    def covers(self, change: Change) -> bool:
        """Whether the change is one of them."""
        return (
            change.organization_uuid == self.organization_uuid
            and self.agent_config_uuid in {None, change.agent_config_uuid}
            and self.kind in {None, change.kind}
        )


@dataclass(frozen=True, slots=True)
class Heard:
    """A change that somebody listened for, and where the listener then is."""

    change: Change
    place: Place


@dataclass(frozen=True, slots=True)
class Lost:
    """Records that are gone from the topic before they were read; where the listener then is."""

    place: Place


News: TypeAlias = Heard | Lost


@dataclass(frozen=True, slots=True)
class Joined:
    """How a listener begins: what it gets first, oldest first, and the place from which it then hears all news.

    `is_whole` says that nothing is missing between where it was and `begins_at`.
    """

    changes: tuple[Change, ...]
    begins_at: Place
    live_at: Place
    is_whole: bool


class Listener:
    """One who listens: a bounded queue of news, oldest first."""

    def __init__(self, wanted: Wanted, *, most: int = QUEUED_CHANGES) -> None:
        self.wanted = wanted
        self.dropped = asyncio.Event()
        """Set when the listener was too slow: it hears no more."""
        self._begins_at: Place | None = None
        self._queue: asyncio.Queue[News] = asyncio.Queue(most)

    def begin_at(self, place: Place) -> None:
        """Hear what comes from this place on; until then nothing is heard."""
        self._begins_at = place

    async def next(self, timeout_seconds: float) -> News | None:
        """The next news; None when there is none in time."""
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._queue.get()
        except TimeoutError:
            return None

    def hear(self, news: News) -> None:
        """Put news before the listener."""
        if self._begins_at is None or (isinstance(news, Heard) and not self._is_for_us(news.change)):
            return
        if self._queue.full():
            self.dropped.set()
            return
        self._queue.put_nowait(news)

    @property
    def has_heard_all(self) -> bool:
        """Whether no news waits."""
        return self._queue.empty()

    def _is_for_us(self, change: Change) -> bool:
        begins_at = (self._begins_at or {}).get(change.partition, 0)
        return change.offset >= begins_at and self.wanted.covers(change)


class Tail:
    """Reads the topic while somebody listens, from as far back as the history goes.

    The broker may be away: listeners then hear nothing until it is back.
    """

    def __init__(
        self, bootstrap_servers: str, *, topic_prefix: str = "", linger_seconds: float = LINGER_SECONDS
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic_prefix + MEMORY_CHANGED.name
        self._linger_seconds = linger_seconds
        self._listeners: dict[UUID, set[Listener]] = {}
        self._anybody = asyncio.Event()
        self._live = asyncio.Event()
        self._moved = asyncio.Event()
        self._history = History()
        self._consumer: AIOKafkaConsumer | None = None

    @property
    def listeners(self) -> int:
        """How many listen."""
        return sum(map(len, self._listeners.values()))

    def listeners_of(self, organization_uuid: UUID) -> int:
        """How many listen for this organization."""
        return len(self._listeners.get(organization_uuid, ()))

    async def run(self, stop: asyncio.Event) -> None:
        """Read whenever somebody listens, until `stop` is set."""
        backoff = Backoff(most_seconds=5.0)
        while not stop.is_set():
            if not await _either(self._anybody, stop):
                continue
            try:
                await self._read(stop, backoff)
            except (KafkaError, OSError) as error:
                _log.warning("live tail waits for the broker", extra={"error_type": type(error).__name__})
                await pause(backoff.next_seconds(), stop)
            if not self._listeners:
                self._history = History()

    @contextlib.contextmanager
    def listening(self, listener: Listener) -> Iterator[None]:
        """Have the listener hear what it wants, until the block ends."""
        organization = listener.wanted.organization_uuid
        self._listeners.setdefault(organization, set()).add(listener)
        self._anybody.set()
        try:
            yield
        finally:
            of_organization = self._listeners[organization]
            of_organization.discard(listener)
            if not of_organization:
                del self._listeners[organization]
            if not self._listeners:
                self._anybody.clear()

    async def begun(self, timeout_seconds: float) -> bool:
        """Wait until the tail has caught up with the topic; False when it has not in time."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._live.wait()
        except TimeoutError:
            return False
        return True

    async def join(self, listener: Listener, since: Place | None) -> Joined:
        """Let a listener begin where it was, or (None) now, once the tail has begun.

        Where it was in the topic decides: all that the topic held when it came back is in `changes`.
        """
        ends = {} if since is None else await self._catch_up()
        # From here on nothing is awaited: between replay and news no change can be lost or told twice.
        here = self._history.place
        if since is None:
            listener.begin_at(here)
            return Joined((), here, here, is_whole=True)
        replay = self._history.since(since, ends)
        live_at = {partition: max(offset, replay.begins_at[partition]) for partition, offset in here.items()}
        listener.begin_at(live_at)
        changes = tuple(filter(listener.wanted.covers, replay.changes))
        return Joined(changes, replay.begins_at, live_at, replay.is_whole)

    def place_of(self, listener: Listener) -> Place:
        """How far the listener has heard everything; nothing while news waits, which says where it is itself."""
        return self._history.place if listener.has_heard_all else {}

    async def _catch_up(self) -> Place:
        """Read what the topic holds now; where its partitions end, nothing where the broker does not say in time."""
        if self._consumer is None:
            return {}
        partitions = [TopicPartition(self._topic, partition) for partition in self._history.place]
        try:
            async with asyncio.timeout(_CATCH_UP_SECONDS):
                offsets = await self._consumer.end_offsets(partitions)
                ends = {tp.partition: end for tp, end in offsets.items()}
                while not self._history.has_reached(ends):
                    self._moved.clear()
                    await self._moved.wait()
        except (KafkaError, OSError, TimeoutError):
            return {}
        return ends

    async def _read(self, stop: asyncio.Event, backoff: Backoff) -> None:
        consumer = GuardedConsumer(
            self._topic,
            bootstrap_servers=self._bootstrap_servers,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_partition_fetch_bytes=MAX_RECORD_BYTES,
            metadata_max_age_ms=30_000,
        )
        try:
            await consumer.start()
            ends = await self._go_back(consumer)
            self._consumer = consumer
            backoff.reset()
            wanted_until = monotonic() + self._linger_seconds
            while not stop.is_set() and monotonic() < wanted_until:
                await self._step(consumer)
                if self._history.has_reached(ends):
                    self._live.set()
                if self._listeners:
                    wanted_until = monotonic() + self._linger_seconds
        finally:
            self._live.clear()
            self._consumer = None
            with contextlib.suppress(KafkaError, OSError):
                await consumer.stop()

    async def _go_back(self, consumer: AIOKafkaConsumer) -> Place:
        """Begin where it was left, or as far back as is remembered; where each partition ends now."""
        partitions = sorted(consumer.assignment())
        begins = await consumer.beginning_offsets(partitions)
        ends = await consumer.end_offsets(partitions)
        for tp in partitions:
            self._history.begin(tp.partition, max(begins[tp], ends[tp] - HISTORY_RECORDS // len(partitions)))
            consumer.seek(tp, self._history.place[tp.partition])
        return {tp.partition: ends[tp] for tp in partitions}

    async def _step(self, consumer: AIOKafkaConsumer) -> None:
        fetched = await consumer.getmany(timeout_ms=POLL_MS, max_records=500)
        for records in fetched.values():
            for record in records:
                self._take(record)
        self._moved.set()

    def _take(self, record: ConsumerRecord) -> None:
        # A partition that was added is read from its beginning.
        self._history.begin(record.partition, record.offset)
        if record.offset != self._history.place[record.partition]:
            # The broker has forgotten what we had not read, or is another broker.
            self._lose(record.partition, record.offset)
        change = _change(record)
        if change is None:
            self._history.pass_over(record.partition, record.offset)
            return
        self._history.add(change)
        listeners = self._listeners.get(change.organization_uuid)
        if listeners:
            heard = Heard(change, self._history.place)
            for listener in tuple(listeners):
                listener.hear(heard)

    def _lose(self, partition: int, offset: int) -> None:
        self._history.lose(partition, offset)
        lost = Lost(self._history.place)
        for of_organization in self._listeners.values():
            for listener in of_organization:
                listener.hear(lost)


def _change(record: ConsumerRecord) -> Change | None:
    """The change that a record tells; None when it cannot be read, which is its writer's fault."""
    try:
        event = parse(MemoryChanged, record.value or b"")
    except WireError as error:
        facts = {"partition": record.partition, "offset": record.offset, "error_text": str(error)}
        _log.warning("a change that cannot be read", extra=facts)
        return None
    return Change(
        partition=record.partition,
        offset=record.offset,
        organization_uuid=event.organization_uuid,
        agent_config_uuid=event.agent_config_uuid,
        kind=event.kind,
        data=event.model_dump_json().encode(),
    )


async def _either(awaited: asyncio.Event, stop: asyncio.Event) -> bool:
    """Wait for one of the two; true when it is the first."""
    waits = {asyncio.create_task(event.wait()) for event in (awaited, stop)}
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return awaited.is_set() and not stop.is_set()
