"""What a pack left out, as columns: hundreds of candidates a load, told by three texts.

The rule that must not break: nothing is lost by it. An object for each candidate costs several times what ranking
them does: to write, to send, to read, to check and to keep (`docs/decisions/what-a-load-and-a-save-cost.md`).
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from itertools import chain
from struct import Struct
from typing import Final
from uuid import UUID

from pydantic import Field, model_validator

from lorebus_contracts.fields import Importance, Score, Uuid
from lorebus_contracts.wire import WireModel
from lorebus_domain.ranking import PassedOver, PassReason

_ID_BYTES: Final = 16
_PARTS: Final = Struct("<4d")
LETTERS: Final[Mapping[PassReason, str]] = {
    PassReason.DUPLICATE: "d",
    PassReason.OVER_BUDGET: "o",
    PassReason.BEYOND_TOP_K: "b",
}
_REASONS: Final[Mapping[str, PassReason]] = {letter: reason for reason, letter in LETTERS.items()}
_BASE64: Final = r"^[A-Za-z0-9+/]*={0,2}$"


class PassedOverEntry(WireModel):
    """A candidate that was left out, and why."""

    memory_id: Uuid = Field(description="The memory entry.")
    reason: PassReason = Field(description="Why it was left out.")
    score: Score = Field(description="The sum that ranked it.")
    relevance: Score = Field(description="How much of the cue it shares.")
    importance: Importance = Field(description="Its importance at the time.")
    recency: Score = Field(description="1 when new, halved every 30 days.")


class LeftOut(WireModel):
    """Candidates that were left out, in ranking order: the columns have one item for each of them."""

    memory_ids: str = Field(
        strict=True, pattern=_BASE64, description="The entries: base64 of 16 bytes each, one after the other."
    )
    reasons: str = Field(
        strict=True,
        pattern="^[dob]*$",
        description="Why: a letter each, `d` duplicate, `o` over_budget, `b` beyond_top_k.",
    )
    parts: str = Field(
        strict=True,
        pattern=_BASE64,
        description="Score, relevance, importance and recency, each from 0 to 1: base64 of four 64-bit floats for"
        " each, lowest byte first.",
    )

    @model_validator(mode="after")
    def _check(self) -> "LeftOut":
        ids, parts = _bytes("memory_ids", self.memory_ids), _bytes("parts", self.parts)
        count = len(self.reasons)
        if len(ids) != count * _ID_BYTES or len(parts) != count * _PARTS.size:
            raise ValueError("has columns of different lengths")
        if not all(0.0 <= part <= 1.0 for part in _floats(parts)):
            raise ValueError("has a part of a score that is not from 0 to 1")
        return self

    def entries(self) -> tuple[PassedOverEntry, ...]:
        """The candidates, one by one."""
        ids, parts = b64decode(self.memory_ids), b64decode(self.parts)
        return tuple(
            PassedOverEntry(
                memory_id=UUID(bytes=ids[place * _ID_BYTES : (place + 1) * _ID_BYTES]),
                reason=_REASONS[letter],
                score=score,
                relevance=relevance,
                importance=importance,
                recency=recency,
            )
            for place, (letter, (score, relevance, importance, recency)) in enumerate(
                zip(self.reasons, _PARTS.iter_unpack(parts), strict=True)
            )
        )


def left_out_columns(passed_over: Sequence[PassedOver]) -> dict[str, str]:
    """The fields of a `LeftOut` of these candidates."""
    numbers = chain.from_iterable(passed[3:] for passed in passed_over)
    parts = Struct(f"<{4 * len(passed_over)}d").pack(*numbers)
    return {
        "memory_ids": b64encode(b"".join([passed.memory_id.bytes for passed in passed_over])).decode(),
        "reasons": "".join([LETTERS[passed.reason] for passed in passed_over]),
        "parts": b64encode(parts).decode(),
    }


def _bytes(name: str, column: str) -> bytes:
    try:
        return b64decode(column, validate=True)
    except binascii.Error as error:
        raise ValueError(f"has {name} that are no base64") from error


def _floats(parts: bytes) -> tuple[float, ...]:
    return Struct(f"<{len(parts) // 8}d").unpack(parts)
