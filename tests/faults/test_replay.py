"""Every record is delivered once more: a group begins again at the first one."""

from typing import Final

import pytest

from lorebus_contracts.topics import TOPICS
from tests.faults.record import Fault, rounds
from tests.faults.stage import Stage
from tests.support.checker import check_quiet
from tests.support.counted import counted
from tests.support.load import (
    AnyOf,
    BusLoad,
    Prunes,
    RecalledSessions,
    Saves,
    Sessions,
    make_tenant,
    seed_entries,
    under,
)
from tests.support.wire import Wire

pytestmark = pytest.mark.timeout(120 + 30 * rounds())

CONSUMERS: Final = ("save", "distill", "recall_labeller", "prune")
TABLES: Final = (
    *("organizations", "agent_configs", "sessions", "memories", "recalls", "recall_entries"),
    *("workflow_runs", "processed_events", "outbox"),
)


async def test_a_full_replay_of_every_topic_changes_nothing_in_the_database(
    stage: Stage, fault: Fault
) -> None:
    tenant = await make_tenant(stage.database_url, stage.rng, max_entries=50)
    seeded = await seed_entries(stage.database_url, tenant, entries=20)
    make = AnyOf(
        stage.rng,
        Saves(tenant, stage.rng),
        Sessions(tenant, stage.rng),
        RecalledSessions(tenant, stage.rng, seeded),
        Prunes(tenant, stage.rng),
    )
    load = BusLoad(await stage.bus(), make, stage.ledger)
    consumers = await stage.start(*CONSUMERS)
    async with under(load):
        await stage.accepts(400)
    await stage.settled()
    before = await contents(stage)
    for _ in range(fault.rounds):
        for consumer in consumers:
            assert await consumer.stop() == 0
        async with Wire(stage.bootstrap_servers, stage.topic_prefix) as wire:
            for group in {group for topic in TOPICS for group in topic.groups}:
                await wire.forget_offsets(group, *(topic for topic in TOPICS if group in topic.groups))
        for consumer in consumers:
            consumer.start()
        for consumer in consumers:
            await consumer.ready()
        await stage.settled()
        fault.injected += 1

        assert await contents(stage) == before
        assert [await counted(consumer.url, "lorebus_applied") for consumer in consumers] == [0, 0, 0, 0]
        assert min([await counted(consumer.url, "lorebus_duplicate") for consumer in consumers]) > 0
    assert await check_quiet(await stage.database()) == ()
    assert await stage.dead_letters() == 0


async def contents(stage: Stage) -> dict[str, list[str]]:
    """Every row of every table that holds what the product knows."""
    database = await stage.database()
    found = {}
    for table in TABLES:
        rows = await database.fetch(f"SELECT t::text AS content FROM lorebus.{table} t")  # noqa: S608 - Our own names.
        found[table] = sorted(row["content"] for row in rows)
    return found
