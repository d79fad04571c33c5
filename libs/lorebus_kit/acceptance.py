"""Accepting an event durably before the caller is told so: on the bus, or through the store.

The rule that must not break: what was accepted is on Kafka with all its in-sync replicas, or committed in
PostgreSQL as run and outbox row together; there is no third place and no half of it (ARCHITECTURE.md, Delivery).
Where both have it, because Kafka confirmed too late, they have the same event_id, which counts once.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from time import monotonic
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from lorebus_contracts.events import Event, PruneRequested, SaveRequested, SessionEnded
from lorebus_contracts.workflows import WorkflowType
from lorebus_kit import tracing
from lorebus_kit.bus import Record, UnconfirmedError
from lorebus_kit.emitting import outbox_row
from lorebus_kit.run_ids import distill_run_id
from lorebus_store import outbox, runs
from lorebus_store.acting import Tenants
from lorebus_store.database import Database
from lorebus_store.errors import TransientError
from lorebus_store.run_rows import InitiatedRun

PUBLISH_SECONDS: Final = 2.0
"""How long Kafka is waited for before the store is asked."""
BUS_AWAY_SECONDS: Final = 3.0
"""How long a bus that did not answer is left alone, so that not every request waits for it."""

_INPUTS: Final = {"organization_uuid", "agent_config_uuid", "session_uuid", "max_entries"}
"""What of an event its run echoes: never a text, nor whose it is."""

_log: Final = logging.getLogger(__name__)


class AcceptMode(StrEnum):
    """Where an event is accepted first."""

    BUS = "bus"
    STORE = "store"


class Bus(Protocol):
    """What is needed of a producer (`lorebus_kit.bus.BusProducer`)."""

    @property
    def connected(self) -> bool:
        """True once the broker has answered."""

    async def publish_all(
        self, records: Sequence[Record], *, timeout_seconds: float
    ) -> Sequence[TransientError | None]:
        """Publish and wait for all in-sync replicas; for each record None, or why it is not confirmed."""


class _Waiting(NamedTuple):
    """An event that nobody has taken yet, its bytes, its trace, and why the bus has not taken it, if it was asked."""

    event: Event
    value: bytes
    traceparent: str | None
    error: TransientError | None = None


class Acceptor:
    """Accepts events, on the bus first or through the store alone.

    `wake_relay` is called when there are new rows in the outbox.
    """

    def __init__(
        self,
        database: Database,
        bus: Bus,
        *,
        mode: AcceptMode,
        wake_relay: Callable[[], None],
        publish_seconds: float = PUBLISH_SECONDS,
    ) -> None:
        self._database = database
        self._bus = bus
        self._mode = mode
        self._wake_relay = wake_relay
        self._publish_seconds = publish_seconds
        self._bus_away_until = 0.0

    @property
    def bus_is_there(self) -> bool:
        """Whether the bus answered when it was last asked."""
        return self._bus.connected and monotonic() >= self._bus_away_until

    async def accept(self, event: Event) -> None:
        """Accept the event, and with it the run that it starts, if it starts one.

        Raises:
            TransientError: neither the bus nor the store took it. It may be sent again with the same event_id.
        """
        await self.accept_all((event,))

    async def accept_all(
        self,
        events: Sequence[Event],
        encoded: Sequence[bytes] | None = None,
        traceparents: Sequence[str | None] | None = None,
    ) -> None:
        """Accept all of the events: what the bus does not confirm goes to the store in one transaction.

        `encoded` are the events' bytes where they have been made already, `traceparents` the traces that caused them
        where that is not ours.

        Raises:
            TransientError: as `accept`; the bus may have some of them, and the store has none.
        """
        values = encoded or [event.model_dump_json().encode() for event in events]
        traces = traceparents or [tracing.traceparent()] * len(events)
        waiting = [_Waiting(*one) for one in zip(events, values, traces, strict=True)]
        if self._mode is AcceptMode.BUS:
            waiting = await self._not_published(waiting)
        if not waiting:
            return
        try:
            await self._store(waiting)
        except TransientError:
            if not await self._taken_by_the_bus_after_all(waiting):
                raise

    async def note_run(self, event: Event) -> None:
        """Show the run of an event that the bus accepted already now, and not when its consumer comes to it.

        Raises:
            TransientError: the store is away; the run shows later.
        """
        run = initiated_run(event, event.model_dump_json().encode())
        if run is not None and self._mode is AcceptMode.BUS:
            async with self._database.begin(Tenants.of(event.organization_uuid)) as connection:
                await runs.insert_initiated(connection, run)

    async def _not_published(self, waiting: list[_Waiting]) -> list[_Waiting]:
        return waiting if monotonic() < self._bus_away_until else await self._asked(waiting)

    async def _asked(self, waiting: Sequence[_Waiting]) -> list[_Waiting]:
        """Publish them; gives those that the bus did not confirm, with why."""
        records = [
            Record(one.event.topic.name, one.event.key(), one.value, tracing.headers(one.traceparent))
            for one in waiting
        ]
        errors = await self._bus.publish_all(records, timeout_seconds=self._publish_seconds)
        failed = [
            one._replace(error=error) for one, error in zip(waiting, errors, strict=True) if error is not None
        ]
        if failed:
            self._bus_away_until = monotonic() + BUS_AWAY_SECONDS
            _log.warning("bus away, accepting through the store", extra={"records": len(failed)})
        return failed

    async def _taken_by_the_bus_after_all(self, waiting: Sequence[_Waiting]) -> bool:
        """Whether the bus has all of what the store did not take.

        Nobody is told no because the bus was left alone: it is asked first. And whoever is told no sends it again as a
        new event: what the bus still holds must not arrive behind that.
        """
        if self._mode is AcceptMode.BUS and all(one.error is None for one in waiting):
            waiting = await self._asked(waiting)
        return await _all_confirmed_late(waiting)

    async def _store(self, waiting: Sequence[_Waiting]) -> None:
        told = (initiated_run(one.event, one.value) for one in waiting)
        started = [run for run in told if run is not None]
        tenants = Tenants.of_all(one.event.organization_uuid for one in waiting)
        async with self._database.begin(tenants) as connection:
            if started:
                await runs.insert_initiated(connection, *started)
            # Our own relay is woken below: notifying transactions would have to commit one after the other.
            rows = [outbox_row(one.event, one.value, caused_in=one.traceparent) for one in waiting]
            await outbox.add(connection, rows, notify=False)
        self._wake_relay()


async def _all_confirmed_late(waiting: Sequence[_Waiting]) -> bool:
    """Whether the bus confirms each of them after all; at the answer none of them is on its way any more."""
    errors = [one.error for one in waiting]
    late = [await error.confirmed_late() for error in errors if isinstance(error, UnconfirmedError)]
    return len(late) == len(errors) and all(late)


def initiated_run(event: Event, value: bytes) -> InitiatedRun | None:
    """The run that an event starts, as it is before anybody has run it; `value` is the event as it is published."""
    key = _run_key(event)
    if key is None:
        return None
    run_id, kind, session_uuid = key
    return InitiatedRun(
        organization_uuid=event.organization_uuid,
        id=run_id,
        type=kind,
        agent_config_uuid=event.agent_config_uuid,
        session_uuid=session_uuid,
        pending_input=value,
        created_at=_created_at(event),
        state_data=event.model_dump_json(include=_INPUTS),
    )


def _created_at(event: Event) -> datetime:
    """When the run was asked for, as its consumer will have it; a session's own end may be long before that."""
    return datetime.now(UTC) if isinstance(event, SessionEnded) else event.occurred_at


def _run_key(event: Event) -> tuple[UUID, WorkflowType, UUID | None] | None:
    match event:
        case SaveRequested():
            return event.event_id, WorkflowType.MEMORY_SAVE, event.session_uuid
        case SessionEnded():
            return distill_run_id(event.session_uuid), WorkflowType.MEMORY_DISTILL, event.session_uuid
        case PruneRequested():
            return event.event_id, WorkflowType.MEMORY_PRUNE, None
        case _:
            return None
