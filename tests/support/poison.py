"""Records that no consumer can handle, each in its own way."""

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiokafka.producer.message_accumulator import MessageBatch
from aiokafka.record.util import calc_crc32c

from lorebus_contracts.topics import Topic
from tests.support.wire import Headers, Wire

MARKED_NAME: Final = "MARKER"
UNDECODABLE_NAME: Final = b"\xff\xfe\xfd\xfc\xfb\xfa"
"""As long as the marker, in whose place it is put."""

_CRC_START: Final = 17
_CRC_END: Final = 21
_DEPTH: Final = 10_000
_MEBIBYTE: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Poison:
    """A record's value and headers, and the error type that its dead letter tells."""

    name: str
    value: bytes | None
    error_type: str
    headers: Headers = ()


def poison_of(sound: bytes) -> tuple[Poison, ...]:
    """Ten bad records for the topic of a sound event; where only a header is bad, its value is the sound one."""
    return (
        Poison("not JSON", sound[:-1], "WireError"),
        Poison("wrong form", _changed(sound, organization_uuid=7), "WireError"),
        Poison("unknown version", _changed(sound, schema_version=2), "WireError"),
        Poison("tombstone", None, "WireError"),
        Poison("empty", b"", "WireError"),
        Poison("header value not UTF-8", sound, "UndecodableHeaderError", (("trace", b"\xff"),)),
        Poison("header value null", sound, "UndecodableHeaderError", (("trace", None),)),
        Poison(
            "header name not UTF-8", sound, "UndecodableHeaderError", ((MARKED_NAME, b"x"), ("kept", b"y"))
        ),
        Poison("nested 10 000 deep", b"[" * _DEPTH + b"]" * _DEPTH, "WireError"),
        Poison("1 MiB", _padded(sound, _MEBIBYTE), "WireError"),
    )


async def send_poison(wire: Wire, topic: Topic, poison: Poison, *, key: bytes, partition: int) -> None:
    """Publish the record; a header with the marker's name gets a name that is not UTF-8."""
    with undecodable_names():
        await wire.send_raw(topic.name, poison.value, key=key, headers=poison.headers, partition=partition)


@contextmanager
def undecodable_names() -> Iterator[None]:
    """Patch what aiokafka's producer sends meanwhile: no client of ours could build such a header."""
    build = MessageBatch.get_data_buffer

    def patched(batch: Any) -> bytes:  # noqa: ANN401 - aiokafka ships no types.
        return with_undecodable_names(build(batch))

    MessageBatch.get_data_buffer = patched
    try:
        yield
    finally:
        MessageBatch.get_data_buffer = build


def with_undecodable_names(batch: bytes) -> bytes:
    """The uncompressed batch with every marker made undecodable, and a checksum that is right again."""
    changed = bytearray(batch.replace(MARKED_NAME.encode(), UNDECODABLE_NAME))
    struct.pack_into(">I", changed, _CRC_START, calc_crc32c(bytes(changed[_CRC_END:])))
    return bytes(changed)


def _changed(sound: bytes, **changes: object) -> bytes:
    return json.dumps({**json.loads(sound), **changes}).encode()


def _padded(sound: bytes, size: int) -> bytes:
    """The sound event with a key that nobody knows, so long that the whole has exactly this size."""
    empty = len(_changed(sound, padding=""))
    return _changed(sound, padding="x" * (size - empty))
