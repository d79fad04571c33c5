"""An answered load on its way to being recorded: the `recall.recorded` event, made into bytes without its models.

The rule that must not break: the bytes are those that the event's own model would write; a test holds the two together.
What is handed out (up to 1000 entries) and what a pack passes over (up to 740) go as columns
(`lorebus_contracts.columns`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from uuid import UUID

from pydantic_core import to_json

from lorebus_contracts.events import RecallRecorded
from lorebus_contracts.handed_out import handed_out_columns
from lorebus_contracts.http_answers import Explanation
from lorebus_gateway.pack_columns import LeftOut


class HandedOut(NamedTuple):
    """An entry that was handed out; the score parts are None where the strategy does not score."""

    memory_id: UUID
    rank: int
    importance: float
    score: float | None = None
    relevance: float | None = None
    recency: float | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """What a load hands out, best first, with the texts in the same order, what it passed over, and for which cue."""

    entries: Sequence[HandedOut]
    texts: Sequence[str]
    cue: str
    passed_over: LeftOut | None = None

    def without_texts(self) -> "Choice":
        """The same for whoever records it, which may be a while: texts are most of what it holds, and never told."""
        return replace(self, texts=())

    def explanation(self) -> Explanation:
        """The choice as a load that asked for it is told."""
        return Explanation.model_validate(_explained(self))


@dataclass(frozen=True, slots=True)
class AnsweredRecall:
    """A recall to be recorded; `head` is its event without entries and candidates, `traceparent` the load's trace."""

    head: RecallRecorded
    choice: Choice
    traceparent: str | None = None

    def encoded(self) -> bytes:
        """The whole event as it is published."""
        head = self.head.model_dump_json(
            exclude={"entries", "handed_out", "passed_over", "left_out"}
        ).encode()
        return head[:-1] + b"," + to_json(self._parts())[1:]

    def _parts(self) -> Mapping[str, object]:
        parts: dict[str, object] = {"entries": (), "handed_out": _handed_out(self.choice.entries)}
        if self.choice.passed_over:
            parts["left_out"] = self.choice.passed_over.columns()
        return parts


def _handed_out(entries: Sequence[HandedOut]) -> Mapping[str, str]:
    # A strategy scores all of its entries or none.
    scored = [
        (entry.score, entry.relevance, entry.recency)
        for entry in entries
        if entry.score is not None and entry.relevance is not None and entry.recency is not None
    ]
    return handed_out_columns(
        [entry.memory_id for entry in entries], [entry.importance for entry in entries], scored
    )


def _entries(choice: Choice) -> list[dict[str, object]]:
    # Ids as text: the driver's UUIDs are of a class of its own, which the serializer would have to look at each time.
    return [
        {
            "memory_id": str(entry.memory_id),
            "rank": entry.rank,
            "score": entry.score,
            "relevance": entry.relevance,
            "importance": entry.importance,
            "recency": entry.recency,
        }
        for entry in choice.entries
    ]


def _explained(choice: Choice) -> Mapping[str, object]:
    return {
        "entries": _entries(choice),
        "passed_over": [
            {
                "memory_id": str(candidate.memory_id),
                "reason": candidate.reason.value,
                "score": candidate.score,
                "relevance": candidate.relevance,
                "importance": candidate.importance,
                "recency": candidate.recency,
            }
            for candidate in choice.passed_over or ()
        ],
    }
