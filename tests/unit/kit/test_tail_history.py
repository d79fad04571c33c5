"""What a reader of the live tail that comes back is told, and when it is told that something is missing."""

from uuid import UUID

import pytest

from lorebus_contracts.events import ChangeKind
from lorebus_kit.tail_history import Change, History, read_place, write_place

ORGANIZATION = UUID(int=1)
CONFIG = UUID(int=2)


def change(partition: int, offset: int, data: bytes = b"{}") -> Change:
    return Change(partition, offset, ORGANIZATION, CONFIG, ChangeKind.SAVED, data)


def history_of(*changes: Change, records: int = 100, most_bytes: int = 1_000) -> History:
    """A history of two partitions that were both read from their beginning."""
    history = History(records=records, most_bytes=most_bytes)
    history.begin(0, 0)
    history.begin(1, 0)
    for one in changes:
        history.add(one)
    return history


def test_a_reader_gets_what_came_after_its_place_in_the_order_in_which_it_was_read() -> None:
    history = history_of(change(0, 0), change(1, 0), change(0, 1), change(1, 1))

    replay = history.since({0: 1, 1: 0}, {})

    assert [(one.partition, one.offset) for one in replay.changes] == [(1, 0), (0, 1), (1, 1)]
    assert (replay.is_whole, replay.begins_at) == (True, {0: 1, 1: 0})


def test_a_place_that_is_forgotten_gets_what_is_left_and_is_not_whole() -> None:
    history = history_of(change(0, 0), change(0, 1), change(0, 2), records=2)

    replay = history.since({0: 0, 1: 0}, {})

    assert [one.offset for one in replay.changes] == [1, 2]
    assert (replay.is_whole, replay.begins_at) == (False, {0: 1, 1: 0})


def test_a_place_just_at_what_is_remembered_is_whole() -> None:
    history = history_of(change(0, 0), change(0, 1), change(0, 2), records=2)

    assert history.since({0: 1, 1: 0}, {}).is_whole


def test_large_changes_are_forgotten_by_their_size() -> None:
    history = history_of(change(0, 0, b"x" * 600), change(0, 1, b"x" * 600))

    assert [one.offset for one in history.since({}, {}).changes] == [1]
    assert not history.since({}, {}).is_whole


def test_a_reader_that_another_process_told_more_is_told_nothing_twice() -> None:
    history = history_of(change(0, 0))

    replay = history.since({0: 5, 1: 0}, {0: 5, 1: 0})

    assert (replay.changes, replay.is_whole, replay.begins_at) == ((), True, {0: 5, 1: 0})


def test_a_place_behind_the_end_of_the_topic_is_of_another_topic() -> None:
    history = history_of(change(0, 0))

    replay = history.since({0: 5, 1: 0}, {0: 1, 1: 0})

    assert ([one.offset for one in replay.changes], replay.is_whole) == ([0], False)


def test_a_partition_that_a_place_does_not_know_is_told_from_its_beginning() -> None:
    history = history_of(change(0, 0), change(1, 0))

    replay = history.since({0: 1}, {})

    assert ([one.partition for one in replay.changes], replay.is_whole) == ([1], True)


def test_a_place_with_a_partition_that_is_not_there_is_not_whole() -> None:
    assert not history_of().since({0: 0, 1: 0, 2: 0}, {}).is_whole


def test_what_the_bus_has_lost_nobody_is_told_is_whole() -> None:
    history = history_of(change(0, 0), change(1, 0))
    history.lose(0, 40)
    history.add(change(0, 40))

    replay = history.since({0: 1, 1: 0}, {})

    assert [(one.partition, one.offset) for one in replay.changes] == [(1, 0), (0, 40)]
    assert not replay.is_whole
    assert history.place == {0: 41, 1: 1}


def test_a_record_that_is_no_change_counts_as_read() -> None:
    history = history_of()
    history.pass_over(0, 0)

    assert history.place == {0: 1, 1: 0}
    assert history.has_reached({0: 1, 1: 0})
    assert not history.has_reached({0: 2})


def test_a_place_is_written_as_an_id_and_read_again() -> None:
    assert write_place({1: 3, 0: 17}) == "p0:17,p1:3"
    assert read_place("p0:17,p1:3") == {0: 17, 1: 3}


@pytest.mark.parametrize(
    "text", ["", "17", "p0", "p0:", "p0:1,", "p0:1,p0:2", "p0:-1", "p0:٣", "p0:1 ", "P0:1"]
)
def test_an_id_that_is_none_of_ours_is_no_place(text: str) -> None:
    assert read_place(text) is None
