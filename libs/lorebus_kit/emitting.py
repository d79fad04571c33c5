"""An event on its way out through the outbox: the same bytes that the bus would get."""

from lorebus_contracts.events import Event
from lorebus_store.outbox import OutboxRow


def outbox_row(event: Event, payload: bytes | None = None) -> OutboxRow:
    """The outbox row of an event; written in the transaction of whatever causes it.

    `payload` are the event's bytes where they have been made already.
    """
    return OutboxRow(
        organization_uuid=event.organization_uuid,
        topic=event.topic.name,
        key=event.key(),
        payload=event.model_dump_json().encode() if payload is None else payload,
        event_id=event.event_id,
    )
