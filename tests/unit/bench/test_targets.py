"""How a figure stands to what is asked of it."""

import pytest

from tests.bench.targets import TARGETS, Target, Verdict, verdict_rows

MORE = Target("P1", "rate", "a rate", 0.3, 0.5, more_is_better=True)
LESS = Target("P8", "start", "a start", 8.0, 3.0, more_is_better=False, unit="s")


@pytest.mark.parametrize(
    ("target", "reached", "verdict"),
    [
        (MORE, 0.6, Verdict.AIM),
        (MORE, 0.5, Verdict.AIM),
        (MORE, 0.3, Verdict.MUST),
        (MORE, 0.29, Verdict.MISSED),
        (LESS, 2.9, Verdict.AIM),
        (LESS, 8.0, Verdict.MUST),
        (LESS, 8.1, Verdict.MISSED),
        (LESS, None, Verdict.NOT_MEASURED),
    ],
)
def test_a_verdict_is_the_better_of_what_is_reached(
    target: Target, reached: float | None, verdict: Verdict
) -> None:
    assert target.verdict(reached) == verdict


def test_every_figure_of_the_list_has_a_row() -> None:
    numbers = {row[0] for row in verdict_rows({})}
    assert numbers == {f"P{number}" for number in range(1, 12)}


def test_a_row_shows_bounds_figure_and_verdict() -> None:
    rows = {row[1]: row for row in verdict_rows({"cold_start": 4.0})}
    assert rows["`make run` to the first save and load answered"] == (
        *("P8", "`make run` to the first save and load answered", "≤ 8 s", "≤ 3 s", "4 s", "must"),
    )


def test_a_lost_save_is_never_good_enough() -> None:
    (target,) = (one for one in TARGETS if one.key == "lost_saves")
    assert [target.verdict(lost) for lost in (0.0, 1.0)] == [Verdict.AIM, Verdict.MISSED]
