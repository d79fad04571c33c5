"""What is on the bus."""

from aiokafka import AIOKafkaConsumer


async def records_of(bootstrap_servers: str, topic: str) -> list[bytes]:
    """The values of all records that a topic holds now, oldest first within each partition."""
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest")
    await consumer.start()
    try:
        ends = await consumer.end_offsets(consumer.assignment())
        return [(await consumer.getone()).value for _ in range(sum(ends.values()))]
    finally:
        await consumer.stop()
