"""An answered recall as bytes: what the event's own model would write."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

import numpy as np
import pytest

from lorebus_contracts.events import CallerBody, RecallRecorded
from lorebus_contracts.handed_out import HandedOutColumns, handed_out_columns
from lorebus_contracts.left_out import LeftOut
from lorebus_contracts.wire import parse
from lorebus_domain.ranking import PassReason
from lorebus_domain.recall import Strategy
from lorebus_domain.visibility import EndUser
from lorebus_gateway import pack_columns
from lorebus_gateway.answered_recalls import AnsweredRecall, Choice, HandedOut

FIRST = UUID("00000000-0000-4000-8000-000000000001")
SECOND = UUID("00000000-0000-4000-8000-000000000002")


def head(strategy: Strategy = Strategy.PACK) -> RecallRecorded:
    return RecallRecorded(
        event_id=uuid4(),
        occurred_at=datetime(2026, 5, 1, 12, 0, 0, 123_456, tzinfo=UTC),
        organization_uuid=uuid4(),
        agent_config_uuid=uuid4(),
        session_uuid=uuid4(),
        caller=CallerBody.of(EndUser('b"o\\b é')),
        requested_strategy=strategy,
        strategy=strategy,
        top_k=10,
        cue='a "quoted" cue, } and é \U0001f680',
        pack_id=uuid4(),
        budget_used_chars=42,
        entries=(),
    )


PACK = Choice(
    entries=[HandedOut(FIRST, 1, 0.5, score=0.123456789, relevance=1.0, recency=0.1 + 0.2)],
    texts=["a text that is never in the event"],
    cue="",
    passed_over=pack_columns.LeftOut(
        ids=np.frombuffer(SECOND.bytes, ">u8").reshape(1, 2),
        parts=np.array([[0.1, 0.0, 1e-9, 1.0]]),
        ranks=np.array([2]),
        reasons="o",
    ),
)
ORDERED = Choice(entries=[HandedOut(FIRST, 1, 1.0), HandedOut(SECOND, 2, 0.0)], texts=["a", "b"], cue="")


def _columns(choice: Choice) -> tuple[list[UUID], list[float], list[tuple[float, float, float]]]:
    parts = [
        (entry.score, entry.relevance, entry.recency)
        for entry in choice.entries
        if entry.score is not None and entry.relevance is not None and entry.recency is not None
    ]
    return (
        [entry.memory_id for entry in choice.entries],
        [entry.importance for entry in choice.entries],
        parts,
    )


@pytest.mark.parametrize("choice", [PACK, ORDERED, Choice([], [], cue="")])
def test_the_bytes_are_those_that_the_events_own_model_would_write(choice: Choice) -> None:
    recall = AnsweredRecall(head(), choice)
    by_model = recall.head.model_copy(
        update={
            "handed_out": HandedOutColumns(**handed_out_columns(*_columns(choice))),
            "left_out": LeftOut(**choice.passed_over.columns()) if choice.passed_over else None,
        }
    )

    told = parse(RecallRecorded, recall.encoded())

    assert told == by_model
    assert b"never in the event" not in recall.encoded()


def test_a_choice_explains_itself_in_the_same_words() -> None:
    explanation = PACK.explanation()

    assert [(entry.memory_id, entry.rank, entry.score) for entry in explanation.entries] == [
        (FIRST, 1, 0.123456789)
    ]
    assert [(left.memory_id, left.reason) for left in explanation.passed_over] == [
        (SECOND, PassReason.OVER_BUDGET)
    ]
