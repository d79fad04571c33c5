"""Events on their way out through the outbox: the same bytes that the bus would get, none too large for it."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final
from uuid import UUID, uuid4

from lorebus_contracts.events import ChangeKind, Event, MemoryChanged
from lorebus_kit.tracing import traceparent
from lorebus_store.locks import ConfigPair
from lorebus_store.outbox import OutboxRow

IDS_AN_EVENT: Final = 1_000
"""A batch may change fifty thousand entries; their ids in one event would be more than a topic takes."""


def outbox_row(event: Event, payload: bytes | None = None, *, caused_in: str | None = None) -> OutboxRow:
    """The outbox row of an event, in the trace that we are in; written in the transaction of whatever causes it.

    `payload` are the event's bytes where they have been made already; `caused_in` is another trace than ours.
    """
    return OutboxRow(
        organization_uuid=event.organization_uuid,
        topic=event.topic.name,
        key=event.key(),
        payload=event.model_dump_json().encode() if payload is None else payload,
        event_id=event.event_id,
        traceparent=caused_in or traceparent(),
    )


def memory_changed(pair: ConfigPair, kind: ChangeKind, times: Mapping[UUID, int]) -> Iterator[MemoryChanged]:
    """What the live tail is told of one agent config: what changed and how many times, at most 1 000 ids an event."""
    ids = list(times)
    for start in range(0, len(ids), IDS_AN_EVENT):
        told = tuple(ids[start : start + IDS_AN_EVENT])
        yield MemoryChanged(
            event_id=uuid4(),
            occurred_at=datetime.now(UTC),
            organization_uuid=pair[0],
            agent_config_uuid=pair[1],
            kind=kind,
            ids=told,
            count=sum(times[one] for one in told),
        )
