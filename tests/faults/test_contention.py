"""Many writers over the same rows at once: savers of the same texts; saves, prunes and deletions of one config."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from uuid import UUID

import pytest

from lorebus_contracts.events import SaveRequested
from lorebus_kit.backoff import pause
from lorebus_store import memories
from lorebus_store.acting import Tenants
from lorebus_store.database import Database
from tests.faults.record import Fault, rounds
from tests.faults.stage import Stage, grows
from tests.support.checker import check_prunes, check_quiet, check_saves
from tests.support.load import BusLoad, Prunes, Saves, Tenant, make_tenant, under
from tests.support.proxy import AtCommit
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(120 + 20 * rounds())

SAVERS: Final = 8
SAVES_A_ROUND: Final = 300
CAP: Final = 100
WAITS_FOR_A_LOCK: Final = (
    "SELECT count(*) > 0 FROM pg_stat_activity"
    " WHERE application_name = 'lorebus-prune' AND wait_event_type = 'Lock' AND datname = current_database()"
)
LATENCY_SECONDS: Final = 0.002
DELETIONS_A_ROUND: Final = 10


@pytest.fixture
def partitions() -> int:
    return SAVERS


async def test_eight_savers_of_the_same_texts_never_deadlock_and_count_exactly(
    stage: Stage, fault: Fault
) -> None:
    tenant = await make_tenant(stage.database_url, stage.rng, configs=1)
    saves = Saves(tenant, stage.rng, most_shared=8)
    load = BusLoad(await stage.bus(), saves, stage.ledger, per_second=400.0, chunk=40, scatter=stage.rng)
    savers = await stage.start(*["save"] * SAVERS)
    async with under(load):
        for _ in range(fault.rounds):
            await stage.accepts(SAVES_A_ROUND)
            fault.injected += 1
    await stage.settled()
    # A server process tells its statistics at its end at the latest.
    await asyncio.gather(*(saver.stop() for saver in savers))

    database = await stage.database()
    assert await check_saves(database, stage.ledger) == ()
    assert await check_quiet(database) == ()
    assert await stage.dead_letters() == 0
    assert await stage.fetch("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == 0


@dataclass(slots=True)
class Deletions:
    """Deletes entries that are there, as a person would, at random."""

    stage: Stage
    tenant: Tenant
    deleted: dict[UUID, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The texts that went, by agent config."""

    @property
    def count(self) -> int:
        """How many entries went."""
        return sum(map(len, self.deleted.values()))

    async def run(self, stop: asyncio.Event) -> None:
        """Delete now and then until `stop` is set."""
        database = Database(self.stage.url_through(self.stage.database_proxy), pool_size=1)
        try:
            while not await pause(0.1, stop):
                await self._delete_one(database)
        finally:
            await database.dispose()

    async def _delete_one(self, database: Database) -> None:
        entry = await (await self.stage.database()).fetchrow(
            "SELECT id, agent_config_uuid, text FROM lorebus.memories ORDER BY random() LIMIT 1"
        )
        if entry is None:
            return
        async with database.begin(Tenants.of(self.tenant.organization_uuid)) as connection:
            gone = await memories.delete_entry(connection, self.tenant.organization_uuid, entry["id"])
        if gone is not None:
            self.deleted[entry["agent_config_uuid"]].append(entry["text"])


async def test_prunes_saves_and_deletions_at_once_keep_to_the_cap_and_lose_nothing_above_what_stays(
    stage: Stage, fault: Fault
) -> None:
    tenant = await make_tenant(stage.database_url, stage.rng, max_entries=CAP)
    bus = await stage.bus()
    # Every text is of its own, so that each save is one new entry.
    saves = BusLoad(bus, Saves(tenant, stage.rng, most_shared=0), stage.ledger, per_second=150.0)
    prunes = BusLoad(bus, Prunes(tenant, stage.rng), stage.ledger, per_second=10.0, chunk=1)
    deletions = Deletions(stage, tenant)
    await stage.start("save", "save", "prune", "prune")
    # So that every transaction lasts long enough to meet others.
    stage.database_proxy.slow_down(LATENCY_SECONDS)
    async with under(saves, prunes, deletions):
        for _ in range(fault.rounds):
            await grows(lambda: deletions.count, by=DELETIONS_A_ROUND, what="deleted entries")
            fault.injected += 1
        # However few were deleted, each config has to be pruned.
        await grows(lambda: least_saved(stage, tenant), by=2 * CAP, what="saves for each config")
    await stage.settled()

    saved = stage.ledger.accepted_of(SaveRequested)
    database = await stage.database()
    assert await check_prunes(database, stage.ledger, saved=len(saved), deleted=deletions.count) == ()
    assert await check_quiet(database) == ()
    assert await stage.dead_letters() == 0
    for config in tenant.configs:
        left = await database.fetch("SELECT text FROM lorebus.memories WHERE agent_config_uuid = $1", config)
        own = {
            event.entries[0].text: event.entries[0].importance
            for event in saved
            if event.agent_config_uuid == config
        }
        stays = [row["text"] for row in left]
        assert len(stays) <= CAP
        # A deletion makes room for one entry that a prune would have taken before.
        assert lower_than_pruned(own, stays, deletions.deleted[config]) <= len(deletions.deleted[config])


async def test_a_prune_counts_what_a_save_adds_that_has_not_committed_yet(stage: Stage, fault: Fault) -> None:
    tenant = await make_tenant(stage.database_url, stage.rng, configs=1, max_entries=CAP)
    stop = asyncio.Event()
    saves = BusLoad(await stage.bus(), Saves(tenant, stage.rng, most_shared=0), stage.ledger)
    prunes = BusLoad(await stage.bus(), Prunes(tenant, stage.rng), stage.ledger)
    proxy = await stage.own_proxy()
    await stage.start("save", through=proxy)
    await stage.start("prune")
    for _ in range(fault.rounds):
        met = asyncio.create_task(proxy.meet_commit(AtCommit.DELAY_REQUEST, marker=b"agents.memory-save"))
        await saves.send([saves.make(), saves.make()], stop)
        await met
        await prunes.send([prunes.make()], stop)
        await eventually(partial(stage.fetch, WAITS_FOR_A_LOCK), what="the prune waits for the save")
        proxy.heal()
        await stage.settled()
        fault.injected += 1

    database = await stage.database()
    assert await check_prunes(database, stage.ledger, saved=2 * fault.rounds) == ()
    assert await check_quiet(database) == ()


def least_saved(stage: Stage, tenant: Tenant) -> int:
    """How many entries were accepted for the config that has the fewest."""
    saved = Counter(event.agent_config_uuid for event in stage.ledger.accepted_of(SaveRequested))
    return min(saved[config] for config in tenant.configs)


def lower_than_pruned(saved: Mapping[str, float], stays: Sequence[str], deleted: Sequence[str]) -> int:
    """How many entries stay though one of higher importance was pruned."""
    pruned = saved.keys() - set(stays) - set(deleted)
    highest = max(saved[text] for text in pruned)
    return sum(saved[text] < highest for text in stays)
