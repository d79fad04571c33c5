"""Ids of new rows: many at once, in the order of what they are given to."""

from time import time_ns
from uuid import RFC_4122, UUID

from lorebus_store.new_ids import new_ids


def test_many_ids_ascend_and_none_is_there_twice() -> None:
    ids = new_ids(1_000)

    assert ids == sorted(ids)
    assert len(set(ids)) == 1_000


def test_an_id_is_a_uuid_of_version_7_that_tells_its_millisecond() -> None:
    before = time_ns() // 1_000_000
    ids = [UUID(str(one)) for one in new_ids(100)]
    after = time_ns() // 1_000_000

    assert {(one.version, one.variant) for one in ids} == {(7, RFC_4122)}
    assert all(before <= one.int >> 80 <= after for one in ids)


def test_no_ids_are_made_for_no_rows() -> None:
    assert new_ids(0) == []
