"""The checker itself: it notices everything that the scenarios are there to find."""

# ruff: noqa: S608 - The statements are put together from constants of this module.

from collections.abc import Mapping
from typing import Final
from uuid import UUID

import asyncpg

from tests.faults.stage import Stage
from tests.support.checker import Complaints, check_labels, check_quiet, check_saves
from tests.support.load import (
    AnyOf,
    BusLoad,
    Ledger,
    RecalledSessions,
    Saves,
    make_tenant,
    seed_entries,
    under,
)

ONE_RUN: Final = "WHERE id = (SELECT id FROM lorebus.workflow_runs LIMIT 1)"
ONE_ENTRY: Final = "WHERE id = (SELECT id FROM lorebus.memories WHERE text LIKE '%nobody else%' LIMIT 1)"
TAMPERINGS: Final[Mapping[str, str]] = {
    f"DELETE FROM lorebus.workflow_runs {ONE_RUN}": "was accepted and is missing",
    f"UPDATE lorebus.workflow_runs SET state_name = 'initiated' {ONE_RUN}": "runs of agents.memory-save are initiated",
    f"UPDATE lorebus.workflow_runs SET history = history || history {ONE_RUN}": "completed, initiated, run, completed",
    f"UPDATE lorebus.workflow_runs SET state_data = state_data || '{{\"saved\": 9}}' {ONE_RUN}": "entries that were",
    f"DELETE FROM lorebus.memories {ONE_ENTRY}": "was saved 1 times and is missing",
    f"UPDATE lorebus.memories SET reinforcement_count = 1 {ONE_ENTRY}": "was saved 1 times, counted 2 times",
    f"UPDATE lorebus.memories SET importance = 0 {ONE_ENTRY}": "not the highest given",
    f"UPDATE lorebus.memories SET text = 'From nowhere' {ONE_ENTRY}": "'From nowhere' was saved 0 times",
    f"UPDATE lorebus.memories SET access_count = access_count + 1 {ONE_ENTRY}": "was handed out 0 times and counted 1",
    "UPDATE lorebus.agent_configs SET entry_count = entry_count + 1": "the counter says",
    "DELETE FROM lorebus.recalls": "is not recorded",
    "UPDATE lorebus.sessions SET outcome = 'lost'": "is not known to have ended with",
    "UPDATE lorebus.sessions SET quality_score = 0.7": "is not known to be rated",
    "INSERT INTO lorebus.outbox (organization_uuid, shard, topic, key, payload, event_id)"
    " VALUES (gen_random_uuid(), 0, 't', '', '', gen_random_uuid())": "1 rows are left in the outbox",
}


async def test_the_checker_complains_of_everything_that_is_lost_doubled_or_stuck(stage: Stage) -> None:
    tenant, recalled = [await make_tenant(stage.database_url, stage.rng) for _ in range(2)]
    seeded = await seed_entries(stage.database_url, recalled, entries=20)
    make = AnyOf(stage.rng, Saves(tenant, stage.rng), RecalledSessions(recalled, stage.rng, seeded))
    await stage.start("save", "recall_labeller")
    async with under(BusLoad(await stage.bus(), make, stage.ledger)):
        await stage.accepts(200)
    await stage.settled()
    database = await stage.database()
    assert await found(database, stage.ledger, tenant.organization_uuid) == ()

    for statement, expected in TAMPERINGS.items():
        tampering = database.transaction()
        await tampering.start()
        await database.execute(statement)
        complaints = await found(database, stage.ledger, tenant.organization_uuid)
        await tampering.rollback()
        assert any(expected in complaint for complaint in complaints), (statement, complaints)


async def found(database: asyncpg.Connection, ledger: Ledger, organization: UUID) -> Complaints:
    """What all of them find."""
    return (
        *await check_saves(database, ledger, organization=organization),
        *await check_labels(database, ledger),
        *await check_quiet(database),
    )
