"""A consumer that neither a record with undecodable header names nor a damaged batch makes lose records.

aiokafka decodes a header's name while it iterates and raises from its record iterator: the partition stands still for
ever, and what the same call had already taken from other partitions is lost, because their positions have moved. Here
a batch with such a name is read again from its bytes, leniently: the record comes out like any other, with the bytes
of its header names kept as surrogates, and the harness dead-letters it. The rule that must not break: no record is
skipped, none is handed out twice.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

import aiokafka.consumer.fetcher as aiokafka_fetcher
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import CorruptRecordException, KafkaError
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.memory_records import MemoryRecords

# Where the length and the format's version stand in every batch, whatever its version.
_LENGTH_START: Final = 8
_LENGTH_END: Final = 12
_MAGIC: Final = 16
_FIRST_MAGIC_WITH_HEADERS: Final = 2


class GuardedConsumer(AIOKafkaConsumer):  # type: ignore[misc]  # aiokafka ships no types.
    """AIOKafkaConsumer whose `getmany` also hands out records with header names that are not UTF-8."""

    def __init__(self, *topics: str, **settings: object) -> None:
        aiokafka_fetcher.MemoryRecords = GuardedRecords
        super().__init__(*topics, **settings)

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """As AIOKafkaConsumer.getmany; a call that raises hands out nothing and leaves every position where it was."""
        before = self._positions()
        try:
            fetched: dict[TopicPartition, list[ConsumerRecord]] = await super().getmany(
                *partitions, timeout_ms=timeout_ms, max_records=max_records
            )
        except KafkaError:
            self._go_back_to(before)
            raise
        return fetched

    def _positions(self) -> Mapping[TopicPartition, int]:
        assignment = self._subscription.subscription and self._subscription.subscription.assignment
        if assignment is None:
            return {}
        states = {tp: assignment.state_value(tp) for tp in assignment.tps}
        return {tp: state.position for tp, state in states.items() if state.has_valid_position}

    def _go_back_to(self, before: Mapping[TopicPartition, int]) -> None:
        """Also drops what is buffered: an iterator that has raised would quietly end the next time."""
        for tp, position in before.items():
            if tp in self.assignment():
                self.seek(tp, position)


class GuardedRecords:
    """aiokafka's records of one fetch, each batch with the bytes that it is read from."""

    def __init__(self, raw: bytes) -> None:
        self._raw = memoryview(raw)
        self._start = 0
        self._records = MemoryRecords(raw)
        self.has_next = self._records.has_next
        self.size_in_bytes = self._records.size_in_bytes

    def next_batch(self) -> Any:  # noqa: ANN401 - As aiokafka's own, which ships no types.
        """The next batch, legacy ones as they are: those have no headers."""
        batch = self._records.next_batch()
        (length,) = struct.unpack_from(">i", self._raw, self._start + _LENGTH_START)
        raw = self._raw[self._start : self._start + _LENGTH_END + length]
        self._start += len(raw)
        return batch if raw[_MAGIC] < _FIRST_MAGIC_WITH_HEADERS else _GuardedBatch(batch, raw)


class _GuardedBatch:
    """One of aiokafka's batches, which is read leniently where its own reading fails."""

    def __init__(self, batch: Any, raw: memoryview) -> None:  # noqa: ANN401 - As above.
        self._batch = batch
        self._raw = raw

    def __getattr__(self, name: str) -> object:
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[Any]:
        """All records or, where the batch is damaged, an error before the first one."""
        try:
            return iter(list(self._batch))
        except (UnicodeDecodeError, CorruptRecordException):
            # The second is what aiokafka makes of the first where its extension is not compiled.
            return iter(list(read_leniently(self._raw)))

    def __next__(self) -> Any:  # noqa: ANN401 - As above.
        return next(self._batch)


class _LenientBytes(bytearray):
    """Bytes whose slices decode as UTF-8 with undecodable bytes kept as surrogates (PEP 383)."""

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401 - As bytearray's own.
        found = super().__getitem__(index)
        return _LenientBytes(found) if isinstance(index, slice) else found

    def decode(self, *_: object) -> str:
        return super().decode("utf-8", "surrogateescape")


def read_leniently(raw: bytes | memoryview) -> Iterator[Any]:
    """The records of one batch (format 2) in order; header names may hold surrogates in place of undecodable bytes.

    Raises:
        CorruptRecordException: the batch is damaged.
    """
    batch = _DefaultRecordBatchPy(raw)
    batch._maybe_uncompress()  # noqa: SLF001 - The buffer is made lenient once it is plain.
    batch._buffer = _LenientBytes(batch._buffer)  # noqa: SLF001
    yield from batch
