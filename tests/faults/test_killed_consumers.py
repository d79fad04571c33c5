"""A consumer is killed (kill -9) at the worst moments of its batch, again and again, under load.

Two members share the work. The victim dies before its COMMIT, after the COMMIT and before it acknowledged, or
whenever; the other member must have done what the victim had in hand within the promised time.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import asyncpg
import pytest

from lorebus_contracts.events import Event, PruneRequested, SaveRequested, SessionEnded
from lorebus_kit.run_ids import distill_run_id
from tests.faults.record import Fault, rounds
from tests.faults.stage import Stage
from tests.support.checker import (
    Complaints,
    check_distills,
    check_labels,
    check_prunes,
    check_quiet,
    check_saves,
)
from tests.support.load import (
    AnyOf,
    BusLoad,
    Ledger,
    Prunes,
    RecalledSessions,
    Saves,
    Sessions,
    Tenant,
    make_tenant,
    seed_entries,
    under,
)
from tests.support.proxy import AtCommit, FaultProxy
from tests.support.services import Service, until
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(90 + 30 * rounds())

SESSION_TIMEOUT_SECONDS: Final = 3.0
TAKEOVER_SECONDS: Final = SESSION_TIMEOUT_SECONDS + 10.0
"""The promise: within the session timeout and ten seconds another member has taken over."""
SEEDED_ENTRIES: Final = 40
MOMENTS: Final = (AtCommit.HOLD_REQUEST, AtCommit.HOLD_ANSWER, None)
"""With its COMMIT not sent, with its COMMIT not answered, and at any."""
LEAST_ROUNDS: Final = 2
CONFIGS: Final = 8
"""So many that every partition has records, whatever a topic's key."""
MAX_ENTRIES: Final = 20
SESSIONS_PER_SECOND: Final = 10.0
"""Two distills of one organization are in hand at once."""
PRUNES_AND_SAVES_PER_SECOND: Final = 30.0
"""Each prune is a transaction of its own, and after a kill one member has all of them in hand."""


@dataclass(slots=True)
class Member:
    """One member of the group, with its own way to PostgreSQL."""

    service: Service
    proxy: FaultProxy
    said_before: int = 0

    def start_again(self) -> None:
        """Bring it back after it was killed."""
        self.said_before = len(self.service.log())
        self.service.start()

    async def has_joined(self) -> None:
        """Wait until it was given partitions since it was started last."""
        await until(
            lambda: '"partitions assigned"' in self.service.log()[self.said_before :],
            seconds=40,
            what="a member has partitions",
        )


@dataclass(frozen=True, slots=True)
class Scenario:
    """A consumer, what is sent to it, and what must have come of it."""

    service: str
    marker: bytes
    """In every transaction of its batches, and in no other."""

    beside: tuple[str, ...]
    """Services that do the rest of the work."""

    make: Callable[[Stage, Tenant], Awaitable[Callable[[], Event]]]
    handled: Callable[[Stage, Sequence[Event]], Awaitable[bool]]
    check: Callable[[asyncpg.Connection, Ledger], Awaitable[Complaints]]
    per_second: float = 100.0
    """Events; fewer than the services handle, so that no backlog is left however long it goes on."""


async def _saves(stage: Stage, tenant: Tenant) -> Callable[[], Event]:
    return Saves(tenant, stage.rng)


async def _saved(stage: Stage, sent: Sequence[Event]) -> bool:
    return await stage.completed([event.event_id for event in sent if isinstance(event, SaveRequested)])


async def _sessions(stage: Stage, tenant: Tenant) -> Callable[[], Event]:
    return Sessions(tenant, stage.rng)


async def _distill_started(stage: Stage, sent: Sequence[Event]) -> bool:
    ids = [distill_run_id(event.session_uuid) for event in sent if isinstance(event, SessionEnded)]
    return bool(
        await stage.fetch("SELECT count(*) FROM lorebus.workflow_runs WHERE id = ANY($1)", ids) == len(ids)
    )


async def _recalled_sessions(stage: Stage, tenant: Tenant) -> Callable[[], Event]:
    seeded = await seed_entries(stage.database_url, tenant, entries=SEEDED_ENTRIES)
    return RecalledSessions(tenant, stage.rng, seeded)


async def _recorded(stage: Stage, sent: Sequence[Event]) -> bool:
    ids = [event.event_id for event in sent]
    query = "SELECT count(*) FROM lorebus.processed_events WHERE event_id = ANY($1)"
    return bool(await stage.fetch(query, ids) == len(ids))


async def _prunes_and_saves(stage: Stage, tenant: Tenant) -> Callable[[], Event]:
    # Every text is of its own, so that each save is one new entry and the sum of a prune's results can be known.
    return AnyOf(stage.rng, Prunes(tenant, stage.rng), Saves(tenant, stage.rng, most_shared=0))


async def _pruned(stage: Stage, sent: Sequence[Event]) -> bool:
    return await stage.completed([event.event_id for event in sent if isinstance(event, PruneRequested)])


async def _check_prunes(database: asyncpg.Connection, ledger: Ledger) -> Complaints:
    return await check_prunes(database, ledger, saved=len(ledger.accepted_of(SaveRequested)))


SCENARIOS: Final = {
    "save": Scenario("save", b"agents.memory-save", (), _saves, _saved, check_saves),
    "distill": Scenario(
        "distill",
        b"Book a table",
        ("save",),
        _sessions,
        _distill_started,
        check_distills,
        per_second=SESSIONS_PER_SECOND,
    ),
    "recall_labeller": Scenario(
        "recall_labeller", b"recall-labeller", (), _recalled_sessions, _recorded, check_labels
    ),
    "prune": Scenario(
        "prune",
        b"agents.memory-prune",
        ("save",),
        _prunes_and_saves,
        _pruned,
        _check_prunes,
        per_second=PRUNES_AND_SAVES_PER_SECOND,
    ),
}


@pytest.mark.parametrize("service", SCENARIOS)
async def test_a_consumer_killed_in_the_middle_of_its_batch_loses_and_doubles_nothing(
    service: str, stage: Stage, fault: Fault
) -> None:
    scenario = SCENARIOS[service]
    tenant = await make_tenant(stage.database_url, stage.rng, configs=CONFIGS, max_entries=MAX_ENTRIES)
    events = await scenario.make(stage, tenant)
    load = BusLoad(await stage.bus(), events, stage.ledger, per_second=scenario.per_second)
    members = await start_members(stage, scenario)
    async with under(load):
        for number in range(max(LEAST_ROUNDS, fault.rounds)):
            victim = members[number % 2]
            await kill(victim, scenario, MOMENTS[number % len(MOMENTS)])
            sent = tuple(stage.ledger.accepted.values())
            await eventually(
                partial(scenario.handled, stage, sent), what="taken over", seconds=TAKEOVER_SECONDS
            )
            victim.start_again()
            await victim.has_joined()
            fault.injected += 1
    await stage.end_leases()
    await stage.settled()

    assert await scenario.check(await stage.database(), stage.ledger) == ()
    assert await check_quiet(await stage.database()) == ()
    assert await stage.dead_letters() == 0


async def start_members(stage: Stage, scenario: Scenario) -> tuple[Member, Member]:
    """Two members of the group, and the services beside them, all ready."""
    first, second = [await stage.own_proxy() for _ in range(2)]
    (one,), (other,), _ = await asyncio.gather(
        stage.start(scenario.service, through=first),
        stage.start(scenario.service, through=second),
        stage.start(*scenario.beside),
    )
    members = (Member(one, first), Member(other, second))
    for member in members:
        await member.has_joined()
    return members


async def kill(victim: Member, scenario: Scenario, moment: AtCommit | None) -> None:
    """Kill it at this moment."""
    if moment is not None:
        await victim.proxy.meet_commit(moment, marker=scenario.marker)
    victim.service.kill()
    victim.proxy.heal()


async def test_a_consumer_that_stands_still_in_the_middle_of_its_batch_and_comes_back_doubles_nothing(
    stage: Stage, fault: Fault
) -> None:
    scenario = SCENARIOS["save"]
    tenant = await make_tenant(stage.database_url, stage.rng, configs=CONFIGS)
    load = BusLoad(await stage.bus(), Saves(tenant, stage.rng), stage.ledger)
    members = await start_members(stage, scenario)
    async with under(load):
        for number in range(fault.rounds):
            victim, other = members[number % 2], members[1 - number % 2]
            other.said_before = len(other.service.log())
            if stage.rng.random() < 1 / 2:
                await victim.proxy.meet_commit(AtCommit.HOLD_ANSWER, marker=scenario.marker)
            victim.service.signal(signal.SIGSTOP)
            victim.proxy.heal()
            await other.has_joined()
            sent = tuple(stage.ledger.accepted.values())
            # It may hold locks until PostgreSQL ends its idle transaction, so this takes longer than after a kill.
            await eventually(partial(scenario.handled, stage, sent), what="taken over", seconds=60)
            victim.said_before = len(victim.service.log())
            victim.service.signal(signal.SIGCONT)
            await victim.has_joined()
            fault.injected += 1
    await stage.settled()

    assert await check_saves(await stage.database(), stage.ledger) == ()
    assert await check_quiet(await stage.database()) == ()
    assert await stage.dead_letters() == 0
