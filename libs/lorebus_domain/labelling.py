"""What became of a session, as the label of its recalls.

The rule that must not break: the label ends up the same in whatever order its events come and however often,
and a rating is never replaced by a terminal outcome (SPEC.md section 5, "Labels").
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeVar
from uuid import UUID

from lorebus_domain import policy


class Label(StrEnum):
    """What became of the session that used a recall."""

    SUCCESS = "success"
    FAILED = "failed"


class LabelSource(StrEnum):
    """What a label comes from; a rating is never replaced by an outcome."""

    OUTCOME = "outcome"
    RATING = "rating"


class NoLabel(StrEnum):
    """Why a recall has no label."""

    NOT_ENDED = "not_ended"
    ENDED_OTHERWISE = "ended_otherwise"


@dataclass(frozen=True, slots=True)
class Terminal:
    """That a session ended; `label` is None where it ended neither `success` nor `failed`."""

    label: Label | None
    occurred_at: datetime
    event_id: UUID


@dataclass(frozen=True, slots=True)
class Rating:
    """That somebody rated a session, `quality_score` in [0, 1]."""

    quality_score: float
    occurred_at: datetime
    event_id: UUID


_Happening = TypeVar("_Happening", Terminal, Rating)


def label_of_outcome(outcome: str) -> Label | None:
    """The label of a session's outcome; None for any other than exactly `success` or `failed`."""
    match outcome:
        case Label.SUCCESS | Label.FAILED:
            return Label(outcome)
        case _:
            return None


def label_of_rating(score: float) -> Label:
    """The label of a rating: `success` from 0.5 on.

    Raises:
        ValueError: the score is outside [0, 1] or no number.

    Source: SPEC.md section 5, "Labels".
    """
    if not 0.0 <= score <= 1.0:
        raise ValueError(f"a quality score is in [0, 1], not {score}")
    return Label.SUCCESS if score >= policy.RATING_SUCCESS_MIN else Label.FAILED


def later(a: _Happening | None, b: _Happening | None) -> _Happening | None:
    """The one of two that counts, the later by (`occurred_at`, `event_id`); None only when both are.

    Taking the later again and again gives the same in any order and with any repeats.
    Source: ARCHITECTURE.md, "Labels".
    """
    if a is None or b is None:
        return b if a is None else a
    return a if (a.occurred_at, a.event_id) >= (b.occurred_at, b.event_id) else b


def resolve_label(terminal: Terminal | None, rating: Rating | None) -> Label | None:
    """The label of a session's recalls: its rating's where there is one, else its terminal's, else none.

    Source: SPEC.md section 5, "Labels".
    """
    if rating is not None:
        return label_of_rating(rating.quality_score)
    return terminal.label if terminal is not None else None


def label_source(terminal: Terminal | None, rating: Rating | None) -> LabelSource | NoLabel:
    """What `resolve_label` has its label from, or why it has none."""
    if rating is not None:
        return LabelSource.RATING
    if terminal is None:
        return NoLabel.NOT_ENDED
    return NoLabel.ENDED_OTHERWISE if terminal.label is None else LabelSource.OUTCOME
