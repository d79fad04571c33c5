import psutil
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from lorebus_kit.topics import apply_topics
from lorebus_ops.apache_kafka import ApacheKafka
from tests.support.processes import family


async def topic_of_three_copies(servers: str, prefix: str) -> str:
    await apply_topics(servers, prefix=prefix, partitions=1, replication_factor=3)
    return f"{prefix}session.ended"


async def publish(servers: str, topic: str, value: bytes) -> int:
    """The broker that led the topic then."""
    producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all")
    await producer.start()
    try:
        await producer.send_and_wait(topic, value)
        return int(producer.client.cluster.leader_for_partition(TopicPartition(topic, 0)))
    finally:
        await producer.stop()


async def take(servers: str, topic: str, count: int, *, group: str) -> list[bytes]:
    """The next values for this group, committed."""
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    try:
        values = [(await consumer.getone()).value for _ in range(count)]
        await consumer.commit()
        return values
    finally:
        await consumer.stop()


async def coordinator_of(servers: str, group: str) -> int:
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        return int(await admin.find_coordinator(group))
    finally:
        await admin.close()


async def test_nothing_that_was_confirmed_is_lost_when_the_leader_is_killed(
    kafka_cluster: ApacheKafka, topic_prefix: str
) -> None:
    servers = kafka_cluster.bootstrap_servers
    topic = await topic_of_three_copies(servers, topic_prefix)
    leader = await publish(servers, topic, b"before")

    await kafka_cluster.kill(leader)

    assert await publish(servers, topic, b"after") != leader
    assert await take(servers, topic, 2, group=topic_prefix) == [b"before", b"after"]
    await kafka_cluster.restart(leader)


async def test_a_group_goes_on_where_it_was_when_its_coordinator_is_killed(
    kafka_cluster: ApacheKafka, topic_prefix: str
) -> None:
    servers = kafka_cluster.bootstrap_servers
    topic = await topic_of_three_copies(servers, topic_prefix)
    await publish(servers, topic, b"one")
    assert await take(servers, topic, 1, group=topic_prefix) == [b"one"]
    coordinator = await coordinator_of(servers, topic_prefix)

    await kafka_cluster.kill(coordinator)

    await publish(servers, topic, b"two")
    assert await take(servers, topic, 1, group=topic_prefix) == [b"two"]
    await kafka_cluster.restart(coordinator)


def test_the_cluster_listens_on_loopback_only(kafka_cluster: ApacheKafka) -> None:
    listening = [
        connection.laddr.ip.removeprefix("::ffff:")
        for broker_id in (1, 2, 3)
        for process in family(kafka_cluster.process_id(broker_id) or 0)
        for connection in psutil.Process(process).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]

    assert len(listening) == 6
    assert set(listening) == {"127.0.0.1"}
