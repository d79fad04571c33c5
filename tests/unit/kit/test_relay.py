"""Which rows of a round may be deleted: what is confirmed, and for each key only up to its first failure."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from lorebus_kit.relay import _confirmed_in_order
from lorebus_store.errors import TransientError
from lorebus_store.outbox import PendingRow


def row(number: int, key: bytes, topic: str = "memory.changed") -> PendingRow:
    return PendingRow(number, 0, UUID(int=0), topic, key, b"", UUID(int=number))


def ids(rows: tuple[PendingRow, ...]) -> list[int]:
    return [one.id for one in rows]


FAILED = TransientError("the broker did not confirm a record")


def test_everything_confirmed_is_deleted() -> None:
    assert ids(_confirmed_in_order([row(1, b"a"), row(2, b"b")], [None, None])) == [1, 2]


def test_behind_a_failure_the_rows_of_its_key_wait_and_those_of_others_do_not() -> None:
    rows = [row(1, b"a"), row(2, b"a"), row(3, b"b"), row(4, b"a")]
    assert ids(_confirmed_in_order(rows, [None, FAILED, None, None])) == [1, 3]


def test_one_key_in_two_topics_is_two_keys() -> None:
    rows = [row(1, b"a", "session.ended"), row(2, b"a", "session.rated")]
    assert ids(_confirmed_in_order(rows, [FAILED, None])) == [2]


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.booleans()), max_size=12))
def test_what_stays_is_for_each_key_exactly_what_begins_with_its_first_failure(
    happened: list[tuple[bytes, bool]],
) -> None:
    rows = [row(number, key) for number, (key, _) in enumerate(happened)]
    errors = [None if confirmed else FAILED for _, confirmed in happened]
    deleted = ids(_confirmed_in_order(rows, errors))
    for key in (b"a", b"b", b"c"):
        of_key = [(one.id, error is None) for one, error in zip(rows, errors, strict=True) if one.key == key]
        first_failure = next(
            (place for place, (_, confirmed) in enumerate(of_key) if not confirmed), len(of_key)
        )
        assert [number for number in deleted if rows[number].key == key] == [
            n for n, _ in of_key[:first_failure]
        ]
