import asyncpg
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tests.support.databases import owner_of


async def test_a_database_of_a_test_is_migrated_and_takes_writes(database_url: str) -> None:
    connection = await asyncpg.connect(owner_of(database_url))
    try:
        tables = await connection.fetchval(
            "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'lorebus'"
        )
        await connection.execute("CREATE TABLE mine (id int)")
    finally:
        await connection.close()

    assert tables >= 12


async def test_a_second_test_finds_nothing_of_the_first(database_url: str) -> None:
    connection = await asyncpg.connect(owner_of(database_url))
    try:
        found = await connection.fetchval("SELECT to_regclass('mine')")
    finally:
        await connection.close()

    assert found is None


async def test_a_record_goes_through_the_broker(bootstrap_servers: str, topics: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, acks="all")
    consumer = AIOKafkaConsumer(
        f"{topics}session.ended", bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest"
    )
    await producer.start()
    await consumer.start()
    try:
        await producer.send_and_wait(f"{topics}session.ended", b"hello")
        record = await consumer.getone()
    finally:
        await consumer.stop()
        await producer.stop()

    assert record.value == b"hello"
