"""Apache Kafka of three brokers loses brokers, and a consumer group its members, under load."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Final

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from lorebus_contracts.topics import SAVE_REQUESTED
from lorebus_ops.apache_kafka import ApacheKafka
from tests.faults import record
from tests.faults.record import Fault, rounds
from tests.faults.stage import Stage, staged
from tests.faults.stores import OwnPostgres, own_postgres
from tests.support.checker import Complaints, check_quiet, check_saves
from tests.support.load import BusLoad, Saves, make_tenant, under
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(180 + 60 * rounds())

BROKERS: Final = 3
PARTITIONS: Final = 6
MEMBERS: Final = 3


@pytest.fixture(scope="module")
def own_database() -> Iterator[OwnPostgres]:
    with own_postgres() as postgres:
        yield postgres


@pytest.fixture
def fault(request: pytest.FixtureRequest) -> Iterator[Fault]:
    yield from record.recorded(request, f"Apache Kafka, {BROKERS} brokers")


@pytest.fixture
async def stage(own_database: OwnPostgres, kafka_cluster: ApacheKafka, fault: Fault) -> AsyncIterator[Stage]:
    async with staged(
        own_database,
        kafka_cluster.bootstrap_servers,
        fault.rng,
        partitions=PARTITIONS,
        replication_factor=BROKERS,
    ) as made:
        yield made


async def loaded(stage: Stage) -> BusLoad:
    """A load of saves over all partitions."""
    tenant = await make_tenant(stage.database_url, stage.rng, configs=8)
    return BusLoad(await stage.bus(), Saves(tenant, stage.rng), stage.ledger)


async def goes_on(stage: Stage) -> None:
    """Wait until more is accepted and all that was accepted is handled."""
    await stage.accepts(50)
    await eventually(partial(stage.completed, list(stage.ledger.accepted)), what="work goes on", seconds=60)


async def complaints(stage: Stage) -> Complaints:
    """What the checker finds once everything is quiet."""
    await stage.settled()
    database = await stage.database()
    return (*await check_saves(database, stage.ledger), *await check_quiet(database))


async def leader_of(stage: Stage, cluster: ApacheKafka) -> int:
    """The broker that leads a partition of the saves."""
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    await admin.start()
    try:
        (topic,) = await admin.describe_topics([stage.topic_prefix + SAVE_REQUESTED.name])
        return int(stage.rng.choice(topic["partitions"])["leader"])
    finally:
        await admin.close()


async def test_a_partition_leader_killed_under_load_costs_no_accepted_save(
    stage: Stage, kafka_cluster: ApacheKafka, fault: Fault
) -> None:
    await stage.start("save", "save")
    async with under(await loaded(stage)):
        for _ in range(fault.rounds):
            await stage.accepts(50)
            leader = await leader_of(stage, kafka_cluster)
            await kafka_cluster.kill(leader)
            await goes_on(stage)
            await kafka_cluster.restart(leader)
            await eventually(partial(all_in_sync, stage, kafka_cluster), what="three copies", seconds=60)
            fault.injected += 1

    assert await complaints(stage) == ()
    assert await stage.dead_letters() == 0


async def test_a_rolling_restart_of_all_brokers_costs_no_accepted_save(
    stage: Stage, kafka_cluster: ApacheKafka, fault: Fault
) -> None:
    await stage.start("save", "save")
    async with under(await loaded(stage)):
        for _ in range(max(1, fault.rounds // BROKERS)):
            for broker_id in range(1, BROKERS + 1):
                await stage.accepts(50)
                await kafka_cluster.restart(broker_id)
                await eventually(partial(all_in_sync, stage, kafka_cluster), what="three copies", seconds=60)
                await goes_on(stage)
                fault.injected += 1

    assert await complaints(stage) == ()
    assert await stage.dead_letters() == 0


async def test_a_group_that_loses_and_wins_members_handles_every_save_once(
    stage: Stage, fault: Fault
) -> None:
    members = await stage.start(*["save"] * MEMBERS)
    running = list(members)
    async with under(await loaded(stage)):
        for _ in range(2 * fault.rounds):
            await stage.accepts(30)
            leaver = stage.rng.choice(members)
            if leaver not in running:
                leaver.start()
                await leaver.ready()
                running.append(leaver)
            elif len(running) > 1:
                running.remove(leaver)
                if stage.rng.random() < 1 / 2:
                    leaver.kill()
                else:
                    assert await leaver.stop() == 0
            fault.injected += 1
        await goes_on(stage)

    assert await complaints(stage) == ()
    assert await stage.dead_letters() == 0


async def all_in_sync(stage: Stage, cluster: ApacheKafka) -> bool:
    """Whether every partition of the saves has all its copies up to date."""
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    await admin.start()
    try:
        (topic,) = await admin.describe_topics([stage.topic_prefix + SAVE_REQUESTED.name])
        return all(len(partition["isr"]) == BROKERS for partition in topic["partitions"])
    finally:
        await admin.close()
