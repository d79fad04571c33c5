"""Ids of new rows that are ordered by time: UUIDv7, many at once.

The rule that must not break: the ids of one call ascend, so that what comes later in a request has the later id.
"""

from os import urandom
from time import time_ns
from typing import Final
from uuid import UUID

from asyncpg.pgproto import pgproto

_NANOSECONDS_A_MILLISECOND: Final = 1_000_000
_RANDOM_BYTES: Final = 10
# RFC 9562 section 5.7: four bits of version, and two of the variant behind the first twelve that are random.
_VERSION: Final = 0x70
_VARIANT: Final = 0x80


def new_ids(count: int) -> list[UUID]:
    """So many new ids of the present millisecond, in ascending order; 74 random bits keep them apart."""
    time = (time_ns() // _NANOSECONDS_A_MILLISECOND).to_bytes(6, "big")
    random = urandom(_RANDOM_BYTES * count)
    # The driver's own UUIDs are made in C.
    return [
        pgproto.UUID(time + marked)
        for marked in sorted(
            _marked(random[start : start + _RANDOM_BYTES]) for start in range(0, len(random), _RANDOM_BYTES)
        )
    ]


def _marked(random: bytes) -> bytes:
    first = (_VERSION | random[0] & 0x0F, random[1], _VARIANT | random[2] & 0x3F)
    return bytes(first) + random[3:]
