"""What a consumer is made of: which topics it reads, what it does with a batch, and what it needs for that.

The rule that must not break: a handler gives exactly one verdict on each event, and has no effect outside the
transaction that it is given.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from lorebus_contracts.events import Event
from lorebus_contracts.topics import Topic
from lorebus_kit.bus import Record
from lorebus_kit.verdicts import Verdict
from lorebus_store.acting import ActsFor
from lorebus_store.database import Connection
from lorebus_store.errors import TransientError


class Handler(Protocol):
    """A consumer's story: parse is done, it decides and stores inside the transaction it is given."""

    async def __call__(self, connection: Connection, events: Sequence[Event], /) -> Sequence[Verdict]:
        """One verdict an event, in order."""


FailureRecorder: TypeAlias = Callable[[Connection, Event, Exception], Awaitable[None]]
"""Notes on the run of an event that it was dead-lettered, and because of which error."""


async def record_no_failure(_connection: Connection, _event: Event, _error: Exception) -> None:
    """For consumers whose events have no run."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one consumer reads and does.

    Attributes:
        group: the consumer group, without prefix.
        events: the model of each topic's records.
        handler: called with all events of a batch in one transaction.
        record_failure: notes on an event's run that it was dead-lettered.
        after_commit: called after each committed batch (wakes relay and workers).
        most_records: the most that a batch has, whatever the setting allows, where records are large.
    """

    group: str
    events: Mapping[Topic, type[Event]]
    handler: Handler
    record_failure: FailureRecorder = record_no_failure
    after_commit: Callable[[], None] = lambda: None
    most_records: int = 5_000


class Transactions(Protocol):
    """What a delivery needs of the database (`lorebus_store.database.Database`)."""

    def begin(self, acts_for: ActsFor, /) -> AbstractAsyncContextManager[Connection]:
        """A transaction: committed at the end of the block, rolled back when it raises."""


class Publisher(Protocol):
    """What a delivery needs of the bus (`lorebus_kit.bus.BusProducer`)."""

    async def publish_all(self, records: Sequence[Record]) -> Sequence[TransientError | None]:
        """Publish in the order given; for each record None, or why it is not confirmed."""
