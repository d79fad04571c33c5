"""Dead letters as a consumer leaves them, without one."""

from aiokafka import ConsumerRecord

from lorebus_contracts.events import Event
from lorebus_contracts.topics import Topic
from lorebus_kit.dead_letters import RejectedError, dead_letter
from tests.support.wire import Headers, Wire


async def leave_letter(
    wire: Wire,
    event: Event,
    group: str,
    *,
    error: Exception | None = None,
    value: bytes | None = None,
    headers: Headers = (),
) -> None:
    """Publish the dead letter of an event; its partition is that of its key."""
    topic: Topic = event.topic
    record = ConsumerRecord(
        topic=topic.name,
        partition=1,
        offset=17,
        timestamp=0,
        timestamp_type=0,
        key=event.key(),
        value=event.model_dump_json().encode() if value is None else value,
        checksum=None,
        serialized_key_size=0,
        serialized_value_size=0,
        headers=tuple(headers),
    )
    letter = dead_letter(
        record,
        topic=topic.dead_letters(group),
        group=group,
        error=error or RejectedError("unknown_organization"),
    )
    await wire.send_raw(letter.topic, letter.value, key=letter.key, headers=letter.headers)
