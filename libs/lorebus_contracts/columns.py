"""Columns on the wire: what is told of hundreds of entries, as one text for each of its fields.

The rule that must not break: a column is checked whole before anything is taken from it. An object for each entry costs
several times what choosing it did: to write, to send, to read, to check and to keep
(`docs/decisions/what-a-load-and-a-save-cost.md`).
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Iterable
from math import isnan
from struct import Struct
from typing import Annotated, Final
from uuid import UUID

from pydantic import Field

ID_BYTES: Final = 16
FLOAT_BYTES: Final = 8

Base64 = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9+/]*={0,2}$")]
"""The bytes of a column."""


def ids_column(ids: Iterable[UUID]) -> str:
    """Ids as base64 of 16 bytes each, one after the other."""
    return b64encode(b"".join([one.bytes for one in ids])).decode()


def floats_column(numbers: Iterable[float]) -> str:
    """Numbers as base64 of 64-bit floats, lowest byte first."""
    given = tuple(numbers)
    return b64encode(Struct(f"<{len(given)}d").pack(*given)).decode()


def column_bytes(name: str, column: str) -> bytes:
    """The bytes of a column.

    Raises:
        ValueError: it is no base64.
    """
    try:
        return b64decode(column, validate=True)
    except binascii.Error as error:
        raise ValueError(f"has {name} that are no base64") from error


def column_floats(column: str) -> tuple[float, ...]:
    """The numbers of a column that was checked."""
    return _floats(b64decode(column))


def check_parts(parts: bytes) -> None:
    """Check that the numbers of a column are parts of scores.

    Raises:
        ValueError: one of them is not from 0 to 1.
    """
    numbers = _floats(parts)
    # The lowest and the highest pass over what is no number, which a sum does not.
    if numbers and not (min(numbers) >= 0.0 and max(numbers) <= 1.0 and not isnan(sum(numbers))):
        raise ValueError("has a part of a score that is not from 0 to 1")


def _floats(packed: bytes) -> tuple[float, ...]:
    return Struct(f"<{len(packed) // FLOAT_BYTES}d").unpack(packed)
