"""What a pack left out, as columns: hundreds of candidates a load, told by three texts.

The rule that must not break: nothing is lost by it.
"""

from base64 import b64decode
from collections.abc import Mapping
from struct import Struct
from typing import Final
from uuid import UUID

from pydantic import Field, model_validator

from lorebus_contracts.columns import ID_BYTES, Base64, check_parts, column_bytes
from lorebus_contracts.fields import Importance, Score, Uuid
from lorebus_contracts.wire import WireModel
from lorebus_domain.ranking import PassReason

_PARTS: Final = Struct("<4d")
LETTERS: Final[Mapping[PassReason, str]] = {
    PassReason.DUPLICATE: "d",
    PassReason.OVER_BUDGET: "o",
    PassReason.BEYOND_TOP_K: "b",
}
REASONS: Final[Mapping[str, PassReason]] = {letter: reason for reason, letter in LETTERS.items()}


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

    memory_ids: Base64 = Field(description="The entries: base64 of 16 bytes each, one after the other.")
    reasons: str = Field(
        strict=True,
        pattern="^[dob]*$",
        description="Why: a letter each, `d` duplicate, `o` over_budget, `b` beyond_top_k.",
    )
    parts: Base64 = Field(
        description="Score, relevance, importance and recency, each from 0 to 1: base64 of four 64-bit floats for"
        " each, lowest byte first.",
    )

    @model_validator(mode="after")
    def _check(self) -> "LeftOut":
        ids, parts = column_bytes("memory_ids", self.memory_ids), column_bytes("parts", self.parts)
        count = len(self.reasons)
        if len(ids) != count * ID_BYTES or len(parts) != count * _PARTS.size:
            raise ValueError("has columns of different lengths")
        check_parts(parts)
        return self

    def entries(self) -> tuple[PassedOverEntry, ...]:
        """The candidates, one by one."""
        ids, parts = b64decode(self.memory_ids), b64decode(self.parts)
        return tuple(
            PassedOverEntry(
                memory_id=UUID(bytes=ids[place * ID_BYTES : (place + 1) * ID_BYTES]),
                reason=REASONS[letter],
                score=score,
                relevance=relevance,
                importance=importance,
                recency=recency,
            )
            for place, (letter, (score, relevance, importance, recency)) in enumerate(
                zip(self.reasons, _PARTS.iter_unpack(parts), strict=True)
            )
        )
