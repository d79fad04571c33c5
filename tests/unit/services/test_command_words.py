"""What operators write on a command line: letters, times, and how long ago."""

from datetime import UTC, datetime, timedelta

import pytest
import typer

from lorebus_kit.letters import LetterPlace
from lorebus_ops.answers import ago
from lorebus_ops.options import duration, moment

NOW = datetime(2026, 1, 31, 22, 0, tzinfo=UTC)


def test_a_letters_place_is_read_as_it_is_written() -> None:
    place = LetterPlace.read("memory.save-requested.lorebus.save.dlq/2/17")

    assert place == LetterPlace("memory.save-requested.lorebus.save.dlq", 2, 17)
    assert str(place) == "memory.save-requested.lorebus.save.dlq/2/17"


@pytest.mark.parametrize(
    "written", ["", "17", "memory.save-requested/2/17", "memory.save-requested.lorebus.save.dlq/-1/x"]
)
def test_what_is_no_letters_place_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"no letter|no dead-letter topic"):
        LetterPlace.read(written)


@pytest.mark.parametrize(
    ("written", "seconds"), [("30s", 30), ("10min", 600), ("5m", 300), ("2h", 7200), ("7d", 604800)]
)
def test_a_length_of_time_has_a_number_and_a_unit(written: str, seconds: int) -> None:
    assert duration(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize("written", ["", "10", "ten min", "-5s", "2026-01-31T22:00:00"])
def test_what_is_no_time_is_refused(written: str) -> None:
    with pytest.raises(typer.BadParameter):
        moment(written)


def test_a_moment_with_an_offset_is_taken_as_it_is() -> None:
    assert moment("2026-01-31T23:00:00+01:00") == NOW


@pytest.mark.parametrize(
    ("before", "told"),
    [
        (timedelta(seconds=-5), "0 s"),
        (timedelta(seconds=119), "119 s"),
        (timedelta(minutes=2), "2 min"),
        (timedelta(hours=47), "47 h"),
        (timedelta(days=3), "3 d"),
    ],
)
def test_how_long_ago_is_told_in_the_largest_unit_of_which_there_are_two(
    before: timedelta, told: str
) -> None:
    assert ago(NOW - before, NOW) == told
