"""What a load handed out, as columns: up to a thousand entries, told by three texts.

The rule that must not break: the columns tell the same as the entries one by one, whose ranks are their places.
"""

from base64 import b64decode
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final
from uuid import UUID

from pydantic import Field, model_validator

from lorebus_contracts.columns import (
    FLOAT_BYTES,
    ID_BYTES,
    Base64,
    check_parts,
    column_bytes,
    column_floats,
    floats_column,
    ids_column,
)
from lorebus_contracts.wire import WireModel

PARTS: Final = 3
"""Score, relevance and recency."""


class HandedOutColumns(WireModel):
    """Entries that were handed out, in their order, ranks from 1: the columns have one item for each of them."""

    memory_ids: Base64 = Field(description="The entries: base64 of 16 bytes each, one after the other.")
    importances: Base64 = Field(
        description="Their importance at the time, from 0 to 1: base64 of a 64-bit float each, lowest byte first."
    )
    parts: Base64 | None = Field(
        default=None,
        description="Score, relevance and recency, each from 0 to 1: base64 of three 64-bit floats for each, lowest"
        " byte first; null where the strategy does not score.",
    )

    @model_validator(mode="after")
    def _check(self) -> "HandedOutColumns":
        ids, importances = (
            column_bytes("memory_ids", self.memory_ids),
            column_bytes("importances", self.importances),
        )
        count, rest = divmod(len(ids), ID_BYTES)
        if rest or len(importances) != count * FLOAT_BYTES:
            raise ValueError("has columns of different lengths")
        check_parts(importances)
        if self.parts is not None:
            parts = column_bytes("parts", self.parts)
            if len(parts) != count * PARTS * FLOAT_BYTES:
                raise ValueError("has columns of different lengths")
            check_parts(parts)
        return self

    def ids(self) -> bytes:
        """The entries, 16 bytes each."""
        return b64decode(self.memory_ids)

    def importance_values(self) -> tuple[float, ...]:
        """The importance of each."""
        return column_floats(self.importances)

    def part_values(self) -> tuple[float, ...]:
        """Score, relevance and recency of one after the other; nothing where the strategy does not score."""
        return () if self.parts is None else column_floats(self.parts)


def handed_out_columns(
    ids: Iterable[UUID], importances: Iterable[float], parts: Sequence[tuple[float, float, float]]
) -> dict[str, str]:
    """The fields of a `HandedOutColumns` of these entries; `parts` is empty where the strategy does not score."""
    columns = {"memory_ids": ids_column(ids), "importances": floats_column(importances)}
    if parts:
        columns["parts"] = floats_column(chain.from_iterable(parts))
    return columns
