"""Labels that do not depend on the order of events (SPEC.md section 5, "Labels")."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import permutations
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebus_domain.labelling import (
    Label,
    LabelSource,
    NoLabel,
    Rating,
    Terminal,
    label_of_outcome,
    label_of_rating,
    label_source,
    later,
    resolve_label,
)
from tests.unit.domain.examples import NOW, instants


def at(minutes: int) -> datetime:
    return NOW + timedelta(minutes=minutes)


FAILED = Terminal(Label.FAILED, at(0), UUID(int=1))
SUCCEEDED_LATER = Terminal(Label.SUCCESS, at(5), UUID(int=2))
ABORTED_LAST = Terminal(None, at(9), UUID(int=3))
RATED_GOOD = Rating(0.9, at(2), UUID(int=4))
RATED_BAD_LATER = Rating(0.2, at(3), UUID(int=5))


def label_after(events: Iterable[Terminal | Rating]) -> Label | None:
    """What the labeller ends up with when it takes each event as it comes."""
    terminal: Terminal | None = None
    rating: Rating | None = None
    for event in events:
        match event:
            case Terminal():
                terminal = later(terminal, event)
            case Rating():
                rating = later(rating, event)
    return resolve_label(terminal, rating)


@pytest.mark.parametrize(
    ("outcome", "label"),
    [
        ("success", Label.SUCCESS),
        ("failed", Label.FAILED),
        ("Success", None),
        ("cancelled", None),
        ("", None),
    ],
)
def test_only_success_and_failed_label_a_recall(outcome: str, label: Label | None) -> None:
    assert label_of_outcome(outcome) is label


@pytest.mark.parametrize(
    ("score", "label"),
    [(0.0, "failed"), (0.4999999, "failed"), (0.5, "success"), (0.9, "success"), (1.0, "success")],
)
def test_a_rating_of_a_half_or_more_is_a_success(score: float, label: str) -> None:
    assert label_of_rating(score) == label


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_score_outside_0_to_1_is_refused(score: float) -> None:
    with pytest.raises(ValueError, match=r"a quality score is in \[0, 1\]"):
        label_of_rating(score)


@pytest.mark.parametrize(
    ("events", "label"),
    [
        ((), None),
        ((FAILED,), "failed"),
        ((RATED_GOOD,), "success"),
        ((FAILED, RATED_GOOD), "success"),
        ((FAILED, RATED_GOOD, FAILED), "success"),
        ((FAILED, SUCCEEDED_LATER), "success"),
        ((FAILED, ABORTED_LAST), None),
        ((FAILED, SUCCEEDED_LATER, RATED_GOOD, RATED_BAD_LATER), "failed"),
        ((ABORTED_LAST, RATED_GOOD), "success"),
    ],
)
def test_events_in_any_order_and_with_repeats_end_in_the_same_label(
    events: tuple[Terminal | Rating, ...], label: str | None
) -> None:
    orders = [*permutations(events), *permutations(events + events[:1]), *permutations(events + events[-1:])]

    assert {label_after(order) for order in orders} == {label}


def test_at_the_same_moment_the_higher_event_id_counts() -> None:
    low = Rating(0.9, at(0), UUID(int=1))
    high = Rating(0.1, at(0), UUID(int=2))

    assert later(low, high) == high
    assert later(high, low) == high


def test_nothing_is_never_later_than_something() -> None:
    assert later(None, FAILED) == FAILED
    assert later(RATED_GOOD, None) == RATED_GOOD
    nothing: Terminal | None = None
    assert later(nothing, None) is None


# Two different events of one id would be a fault of whoever made them, so each event's id is its own.
events_of_a_session = st.lists(
    st.one_of(
        st.tuples(st.just("terminal"), st.sampled_from([Label.SUCCESS, Label.FAILED, None]), instants),
        st.tuples(st.just("rating"), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([at(0), at(1)])),
    ),
    max_size=6,
)


@given(events_of_a_session, st.data())
def test_any_history_redelivered_in_any_order_ends_in_the_same_label(
    drawn: list[tuple[str, Label | float | None, datetime]], data: st.DataObject
) -> None:
    events = [
        Rating(value, moment, UUID(int=number))
        if isinstance(value, float)
        else Terminal(label_of_outcome(value or ""), moment, UUID(int=number))
        for number, (_, value, moment) in enumerate(drawn)
    ]
    repeats = data.draw(st.lists(st.sampled_from(events), max_size=4)) if events else []
    redelivered = data.draw(st.permutations(events + repeats))

    assert label_after(redelivered) == label_after(events)


def test_what_a_label_comes_from_is_its_rating_before_its_outcome() -> None:
    rating = Rating(0.2, at(0), UUID(int=9))

    assert label_source(FAILED, None) is LabelSource.OUTCOME
    assert label_source(FAILED, rating) is LabelSource.RATING
    assert label_source(None, rating) is LabelSource.RATING
    assert label_source(ABORTED_LAST, rating) is LabelSource.RATING


def test_without_a_label_there_is_a_reason() -> None:
    assert label_source(None, None) is NoLabel.NOT_ENDED
    assert label_source(ABORTED_LAST, None) is NoLabel.ENDED_OTHERWISE
