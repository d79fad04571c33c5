"""The bus as the world outside sees it: producing any bytes at all, and reading whole topics back."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from lorebus_contracts.events import Event
from lorebus_contracts.topics import MAX_RECORD_BYTES, Topic
from tests.support.waiting import eventually

Headers = Sequence[tuple[str, bytes | None]]


class Wire:
    """A producer and readers for the topics behind one prefix; groups and topics are named without it."""

    def __init__(self, bootstrap_servers: str, prefix: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._prefix = prefix
        self._producer: AIOKafkaProducer | None = None
        self._reader: AIOKafkaConsumer | None = None

    async def __aenter__(self) -> Self:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap_servers,
            enable_idempotence=False,
            acks="all",
            max_request_size=2 * MAX_RECORD_BYTES,
        )
        self._reader = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap_servers, auto_offset_reset="earliest"
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
        await self._producer.send_and_wait(
            self._prefix + topic, value=value, key=key, headers=list(headers) or None, partition=partition
        )

    async def read(self, topic: str) -> list[ConsumerRecord]:
        """All records of a topic as it is now, a partition after the other."""
        reader = self._reading
        partitions = await self._partitions(topic)
        reader.assign(partitions)
        ends = await reader.end_offsets(partitions)
        found: list[ConsumerRecord] = []
        for tp in partitions:
            reader.seek(tp, 0)
        while any([await reader.position(tp) < ends[tp] for tp in partitions]):
            fetched = await reader.getmany(timeout_ms=200)
            found += [record for records in fetched.values() for record in records]
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
        """Make a group that has no member begin again at the start of these topics."""
        partitions = [tp for topic in topics for tp in await self._partitions(topic.name)]
        asking = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap_servers,
            group_id=self._prefix + group,
            enable_auto_commit=False,
        )
        asking.assign(partitions)
        await asking.start()
        try:
            await asking.commit(dict.fromkeys(partitions, 0))
        finally:
            await asking.stop()

    @property
    def _reading(self) -> AIOKafkaConsumer:
        if self._reader is None:
            raise RuntimeError("the wire is not open")
        return self._reader

    async def _is_settled(self, group: str, topics: Iterable[Topic]) -> bool:
        for topic in topics:
            committed = await self.committed(group, topic)
            ends = await self._reading.end_offsets(list(committed))
            if any(committed[tp] < end for tp, end in ends.items()):
                return False
        return True

    async def _partitions(self, topic: str) -> list[TopicPartition]:
        name = self._prefix + topic
        producer = self._producer
        if producer is None:
            raise RuntimeError("the wire is not open")
        return [TopicPartition(name, number) for number in sorted(await producer.partitions_for(name))]
