"""A consumer that a record with undecodable header names cannot wedge.

aiokafka decodes a header's name while it iterates and raises from its record iterator; the position never moves
past such a record, so its partition stands still for ever. Here the batch is read again from its bytes, leniently:
the record comes out like any other, with the bytes of its header names kept as surrogates, and the harness
dead-letters it. The rule that must not break: no record is skipped, none is handed out twice.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final

import aiokafka.consumer.fetcher as aiokafka_fetcher
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.legacy_records import LegacyRecordBatch
from aiokafka.record.memory_records import MemoryRecords

# Where the length and the format's version stand in every batch, whatever its version.
_LENGTH_START: Final = 8
_LENGTH_END: Final = 12
_MAGIC: Final = 16
_FIRST_MAGIC_WITH_HEADERS: Final = 2


class _KeptRecords:
    """aiokafka's records of one fetch, with the bytes that they were read from kept beside them."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self._records = MemoryRecords(raw)
        self.has_next = self._records.has_next
        self.next_batch = self._records.next_batch
        self.size_in_bytes = self._records.size_in_bytes


class GuardedConsumer(AIOKafkaConsumer):  # type: ignore[misc]  # aiokafka ships no types.
    """AIOKafkaConsumer whose `getmany` also hands out records with header names that are not UTF-8."""

    def __init__(self, *topics: str, **settings: object) -> None:
        aiokafka_fetcher.MemoryRecords = _KeptRecords
        super().__init__(*topics, **settings)

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """As AIOKafkaConsumer.getmany."""
        try:
            fetched: dict[TopicPartition, list[ConsumerRecord]] = await super().getmany(
                *partitions, timeout_ms=timeout_ms, max_records=max_records
            )
        except UnicodeDecodeError:
            return self._read_wedged()
        return fetched

    def _read_wedged(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        """The records of each partition whose iterator died, read leniently from its current position on."""
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        buffered = self._fetcher._records  # noqa: SLF001 - aiokafka offers no other way in.
        for tp, result in list(buffered.items()):
            partition_records = getattr(result, "_partition_records", None)
            iterator = getattr(partition_records, "_records_iterator", None)
            if partition_records is None or iterator is None or iterator.gi_frame is not None:
                continue
            position = self._subscription.subscription.assignment.state_value(tp).position
            raw = partition_records._records.raw  # noqa: SLF001
            del buffered[tp]
            records = [record for record in read_leniently(tp, raw) if record.offset >= position]
            if records:
                self.seek(tp, records[-1].offset + 1)
                found[tp] = records
        return found


class _LenientBytes(bytearray):
    """Bytes whose slices decode as UTF-8 with undecodable bytes kept as surrogates (PEP 383)."""

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401 - As bytearray's own.
        found = super().__getitem__(index)
        return _LenientBytes(found) if isinstance(index, slice) else found

    def decode(self, *_: object) -> str:
        return super().decode("utf-8", "surrogateescape")


def read_leniently(tp: TopicPartition, raw: bytes) -> Iterator[ConsumerRecord]:
    """All records of a fetched buffer, in order; header names may hold surrogates in place of undecodable bytes."""
    start = 0
    while start + _LENGTH_END <= len(raw):
        (length,) = struct.unpack_from(">i", raw, start + _LENGTH_START)
        end = start + _LENGTH_END + length
        if end > len(raw):
            return
        yield from _records_of(tp, raw[start:end])
        start = end


def _records_of(tp: TopicPartition, raw: bytes) -> Iterator[ConsumerRecord]:
    if raw[_MAGIC] < _FIRST_MAGIC_WITH_HEADERS:
        batch = LegacyRecordBatch(raw, raw[_MAGIC])
    else:
        batch = _DefaultRecordBatchPy(raw)
        if batch.is_control_batch:
            return
        batch._maybe_uncompress()  # noqa: SLF001 - The buffer is made lenient once it is plain.
        batch._buffer = _LenientBytes(batch._buffer)  # noqa: SLF001
    for record in batch:
        yield ConsumerRecord(
            tp.topic,
            tp.partition,
            record.offset,
            record.timestamp,
            record.timestamp_type,
            record.key,
            record.value,
            record.checksum,
            -1 if record.key is None else len(record.key),
            -1 if record.value is None else len(record.value),
            tuple(record.headers),
        )
