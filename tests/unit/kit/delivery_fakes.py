"""Stand-ins at the ports of a delivery: a consumer, a database and a bus that remember what was asked of them."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from aiokafka import ConsumerRecord, TopicPartition

from lorebus_contracts.events import Event, PruneRequested
from lorebus_contracts.topics import PRUNE_GROUP, PRUNE_REQUESTED
from lorebus_kit.bus import Record
from lorebus_kit.delivery import Delivery
from lorebus_kit.subscription import FailureRecorder, Handler, Publisher, Subscription, record_no_failure
from lorebus_kit.verdicts import Applied, Verdict
from lorebus_store.acting import ActsFor
from lorebus_store.database import Connection
from lorebus_store.errors import TransientError
from tests.support.events import Scope, prune

TOPIC: Final = PRUNE_REQUESTED.name
SCOPE: Final = Scope(UUID(int=1), UUID(int=2))
LEFT: Final = TopicPartition(TOPIC, 0)
RIGHT: Final = TopicPartition(TOPIC, 1)


class FakeConsumer:
    """Knows its assignment; remembers commits, seeks and pauses."""

    def __init__(self, *assigned: TopicPartition, commit_error: Exception | None = None) -> None:
        self._assigned = set(assigned or (LEFT, RIGHT))
        self._commit_error = commit_error
        self.commits: list[Mapping[TopicPartition, int]] = []
        self.seeks: list[tuple[TopicPartition, int]] = []
        self.paused: set[TopicPartition] = set()

    def assignment(self) -> set[TopicPartition]:
        return set(self._assigned)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        self.seeks.append((tp, offset))

    def pause(self, tp: TopicPartition) -> None:
        self.paused.add(tp)

    def resume(self, tp: TopicPartition) -> None:
        self.paused.discard(tp)

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self._commit_error is not None:
            raise self._commit_error
        self.commits.append(dict(offsets))


class FakeDatabase:
    """Hands out one connection; raises what it was told to, once each, when a transaction begins."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.connection = Connection.__new__(Connection)
        self.committed = 0
        self.rolled_back = 0

    @asynccontextmanager
    async def begin(self, _acts_for: ActsFor) -> AsyncIterator[Connection]:
        if self._errors:
            raise self._errors.pop(0)
        try:
            yield self.connection
        except BaseException:
            self.rolled_back += 1
            raise
        self.committed += 1


class FakeBus:
    """Keeps what was published; refuses the first `refusals` records."""

    def __init__(self, *, refusals: int = 0) -> None:
        self._refusals = refusals
        self.published: list[Record] = []

    async def publish_all(self, records: Sequence[Record]) -> Sequence[TransientError | None]:
        answers: list[TransientError | None] = []
        for record in records:
            if self._refusals:
                self._refusals -= 1
                answers.append(TransientError("the broker did not confirm a record"))
            else:
                self.published.append(record)
                answers.append(None)
        return answers


Decide = Callable[[Event], Verdict]


class FakeHandler:
    """Applies every event unless told otherwise; remembers each batch that it was given."""

    def __init__(self, decide: Decide = lambda _event: Applied()) -> None:
        self._decide = decide
        self.batches: list[list[UUID]] = []

    async def __call__(self, connection: Connection, events: Sequence[Event]) -> Sequence[Verdict]:
        assert connection is not None
        self.batches.append([event.event_id for event in events])
        return [self._decide(event) for event in events]


def delivery_of(
    handler: Handler,
    *,
    database: FakeDatabase,
    bus: Publisher,
    dead_letter_limit: int = 50,
    hold_seconds: float = 60.0,
    record_failure: FailureRecorder = record_no_failure,
) -> Delivery:
    """A delivery of the prune consumer's topic."""
    subscription = Subscription(
        group=PRUNE_GROUP,
        events={PRUNE_REQUESTED: PruneRequested},
        handler=handler,
        record_failure=record_failure,
    )
    return Delivery(
        subscription,
        database=database,
        bus=bus,
        dead_letter_limit=dead_letter_limit,
        hold_seconds=hold_seconds,
    )


def sound(number: int, *, tp: TopicPartition = LEFT) -> ConsumerRecord:
    """The record at offset `number` with an event whose id is that number."""
    event = prune(SCOPE, event_id=UUID(int=number))
    return record(number, event.model_dump_json().encode(), tp=tp)


def poison(number: int, *, tp: TopicPartition = LEFT) -> ConsumerRecord:
    """The record at offset `number` with a value that nobody can read."""
    return record(number, b"{", tp=tp)


def record(
    offset: int,
    value: bytes | None,
    *,
    tp: TopicPartition = LEFT,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> ConsumerRecord:
    """A consumed record."""
    return ConsumerRecord(
        tp.topic, tp.partition, offset, 0, 0, b"key", value, None, 3, len(value or b""), tuple(headers)
    )
