"""Reading fetched bytes: a header name that is not UTF-8 costs no record, its own included."""

import gzip
import struct
from collections.abc import Sequence
from typing import Any, Protocol

import pytest
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from hypothesis import given
from hypothesis import strategies as st

from lorebus_kit.guarded_consumer import GuardedRecords, read_leniently
from tests.support.poison import MARKED_NAME, with_undecodable_names

Header = tuple[str, bytes | None]


class Records(Protocol):
    """What aiokafka and we give for the bytes of one fetch."""

    def has_next(self) -> bool: ...

    def next_batch(self) -> Any: ...  # noqa: ANN401 - aiokafka ships no types.


BAD = (MARKED_NAME, b"x")
LOST = "\udcff\udcfe\udcfd\udcfc\udcfb\udcfa"
GZIP = 1
HEADER_BYTES = 61


def batch_of(*headers: Sequence[Header], base_offset: int = 0) -> bytes:
    """A batch as aiokafka's producer builds it: a record for each list of headers, marked names undecodable."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for place, of_record in enumerate(headers):
        builder.append(place, 1_700_000_000_000, b"key", b"value %d" % place, list(of_record))
    raw = bytearray(builder.build())
    struct.pack_into(">q", raw, 0, base_offset)
    return with_undecodable_names(bytes(raw))


def compressed(batch: bytes) -> bytes:
    """The same batch with its records compressed."""
    raw = bytearray(batch[:HEADER_BYTES] + gzip.compress(batch[HEADER_BYTES:]))
    struct.pack_into(">i", raw, 8, len(raw) - 12)
    struct.pack_into(">h", raw, 21, GZIP)
    struct.pack_into(">I", raw, 17, calc_crc32c(bytes(raw[21:])))
    return bytes(raw)


def read(records: Records) -> list[tuple[int, bytes, bytes, tuple[Header, ...]]]:
    """Offset, key, value and headers of every record, batch by batch."""
    found = []
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        found += [(one.offset, one.key, one.value, tuple(one.headers)) for one in batch]
    return found


def test_sound_bytes_are_read_as_aiokafka_reads_them() -> None:
    raw = batch_of([], [("trace", b"1")]) + batch_of([("a", None)], base_offset=2)
    assert read(GuardedRecords(raw)) == read(MemoryRecords(raw))


def test_a_record_with_an_undecodable_name_comes_out_in_its_place_and_every_other_one_too() -> None:
    raw = batch_of([], [BAD, ("kept", b"y")], []) + batch_of([("trace", b"1")], base_offset=3)
    assert read(GuardedRecords(raw)) == [
        (0, b"key", b"value 0", ()),
        (1, b"key", b"value 1", ((LOST, b"x"), ("kept", b"y"))),
        (2, b"key", b"value 2", ()),
        (3, b"key", b"value 0", (("trace", b"1"),)),
    ]


def test_a_compressed_batch_is_read_as_well() -> None:
    raw = compressed(batch_of([BAD], []))
    assert [headers for _, _, _, headers in read(GuardedRecords(raw))] == [((LOST, b"x"),), ()]


def test_a_batch_that_is_not_there_as_a_whole_is_left_for_the_next_fetch() -> None:
    whole = batch_of([BAD])
    assert [offset for offset, *_ in read(GuardedRecords(whole + batch_of([], base_offset=1)[:-3]))] == [0]


def test_what_a_batch_says_of_itself_is_aiokafkas_own() -> None:
    batch = GuardedRecords(batch_of([BAD], [], base_offset=40)).next_batch()
    assert (batch.base_offset, batch.next_offset, batch.is_control_batch) == (40, 42, False)


def test_legacy_batches_are_left_as_they_are() -> None:
    builder = LegacyRecordBatchBuilder(magic=1, compression_type=0, batch_size=1 << 20)
    builder.append(0, timestamp=1, key=b"key", value=b"value")
    batch = GuardedRecords(bytes(builder.build())).next_batch()
    assert [one.value for one in batch] == [b"value"]


def test_a_damaged_batch_gives_an_error_before_its_first_record() -> None:
    raw = bytearray(batch_of([BAD], []))
    struct.pack_into(">i", raw, 57, 3)
    batch = GuardedRecords(bytes(raw)).next_batch()
    with pytest.raises(CorruptRecordException):
        iter(batch)


def test_reading_leniently_gives_the_bytes_of_a_name_back() -> None:
    ((name, _),) = next(iter(read_leniently(batch_of([BAD])))).headers
    assert name.encode("utf-8", "surrogateescape") == b"\xff\xfe\xfd\xfc\xfb\xfa"


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(["a", "ä", "", MARKED_NAME]), st.none() | st.binary(max_size=3)),
            max_size=3,
        ),
        min_size=1,
        max_size=6,
    )
)
def test_whatever_the_names_each_record_comes_out_once_with_its_value_and_headers(
    headers: list[list[Header]],
) -> None:
    expected = [
        (
            place,
            b"key",
            b"value %d" % place,
            tuple((LOST if name == MARKED_NAME else name, value) for name, value in one),
        )
        for place, one in enumerate(headers)
    ]
    assert read(GuardedRecords(batch_of(*headers))) == expected
