"""The bus as the world outside sees it: producing any bytes at all, and reading whole topics back."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from lorebus_contracts.events import Event
from lorebus_contracts.topics import MAX_RECORD_BYTES, Topic
from lorebus_kit.guarded_consumer import GuardedConsumer
from tests.support.waiting import eventually, until

FETCH_MS: Final = 50

Headers = Sequence[tuple[str, bytes | None]]


class Wire:
    """A producer and readers for the topics behind one prefix; groups and topics are named without it."""

    def __init__(self, bootstrap_servers: str, prefix: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._prefix = prefix
        self._producer: AIOKafkaProducer | None = None
        self._reader: GuardedConsumer | None = None

    async def __aenter__(self) -> Self:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap_servers,
            enable_idempotence=False,
            acks="all",
            max_request_size=2 * MAX_RECORD_BYTES,
        )
        self._reader = GuardedConsumer(
            bootstrap_servers=self._bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=FETCH_MS,
        )
        await self._producer.start()
        await self._reader.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in (self._producer, self._reader):
            if client is not None:
                await client.stop()

    async def send(self, *events: Event, partition: int | None = None) -> None:
        """Publish events as the product does, many in flight."""
        await asyncio.gather(
            *(
                self.send_raw(
                    event.topic.name, event.model_dump_json().encode(), key=event.key(), partition=partition
                )
                for event in events
            )
        )

    async def send_raw(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        """Publish one record exactly so and wait until the broker has it."""
        if self._producer is None:
            raise RuntimeError("the wire is not open")
        if key is None and value is None:
            # The client refuses such a record unless it comes in a batch of one's own.
            batch = self._producer.create_batch()
            batch.append(key=None, value=None, timestamp=None, headers=list(headers))
            await (await self._producer.send_batch(batch, self._prefix + topic, partition=partition or 0))
            return
        await self._producer.send_and_wait(
            self._prefix + topic, value=value, key=key, headers=list(headers) or None, partition=partition
        )

    async def read(self, topic: str) -> list[ConsumerRecord]:
        """All records of a topic as it is now, a partition after the other."""
        partitions = await self._partitions(topic)
        found = await self._read_from(dict.fromkeys(partitions, 0))
        return sorted(found, key=lambda record: (record.partition, record.offset))

    async def dead_letters(self, topic: Topic, group: str, *, count: int = 0) -> list[ConsumerRecord]:
        """The dead letters of a topic and group, once there are at least `count`."""

        async def enough() -> list[ConsumerRecord] | None:
            records = await self.read(topic.dead_letters(group))
            return records if len(records) >= count else None

        if count == 0:
            return await self.read(topic.dead_letters(group))
        found = await eventually(enough, what=f"{count} dead letters of {topic.name}")
        assert found is not None
        return found

    async def settled(self, group: str, *topics: Topic) -> None:
        """Wait until the group has acknowledged all there is in these topics."""
        await eventually(lambda: self._is_settled(group, topics), what=f"{group} has acknowledged everything")

    async def committed(self, group: str, topic: Topic) -> Mapping[TopicPartition, int]:
        """How far the group has acknowledged each partition; 0 where it has nothing."""
        partitions = await self._partitions(topic.name)
        asking = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap_servers,
            group_id=self._prefix + group,
            enable_auto_commit=False,
        )
        asking.assign(partitions)
        await asking.start()
        try:
            return {tp: await asking.committed(tp) or 0 for tp in partitions}
        finally:
            await asking.stop()

    async def forget_offsets(self, group: str, *topics: Topic) -> None:
        """Make a group that has no member begin again at the start of these topics.

        Not every broker lets anybody but a member commit, so this is one for a moment.
        """
        partitions = [tp for topic in topics for tp in await self._partitions(topic.name)]
        member = AIOKafkaConsumer(
            *(self._prefix + topic.name for topic in topics),
            bootstrap_servers=self._bootstrap_servers,
            group_id=self._prefix + group,
            enable_auto_commit=False,
        )
        await member.start()
        try:
            await until(lambda: member.assignment() == set(partitions), what="the group is joined")
            await member.commit(dict.fromkeys(partitions, 0))
        finally:
            await member.stop()

    @property
    def _reading(self) -> GuardedConsumer:
        if self._reader is None:
            raise RuntimeError("the wire is not open")
        return self._reader

    async def _is_settled(self, group: str, topics: Iterable[Topic]) -> bool:
        for topic in topics:
            if await self._read_from(await self.committed(group, topic)):
                return False
        return True

    async def _read_from(self, starts: Mapping[TopicPartition, int]) -> list[ConsumerRecord]:
        """Everything behind these offsets as it is now.

        Where a partition ends is told by fetches: the embedded broker's answer to "latest offset" points into the
        last batch where that holds several records.
        """
        reader = self._reading
        reader.assign(list(starts))
        for tp, offset in starts.items():
            reader.seek(tp, offset)
        found: list[ConsumerRecord] = []
        waiting = set(starts)
        while waiting:
            fetched = await reader.getmany(*waiting, timeout_ms=FETCH_MS)
            found += [record for records in fetched.values() for record in records]
            for tp in tuple(waiting):
                end = reader.highwater(tp)
                if end is not None and await reader.position(tp) >= end:
                    waiting.discard(tp)
        return found

    async def _partitions(self, topic: str) -> list[TopicPartition]:
        name = self._prefix + topic
        producer = self._producer
        if producer is None:
            raise RuntimeError("the wire is not open")
        return [TopicPartition(name, number) for number in sorted(await producer.partitions_for(name))]
