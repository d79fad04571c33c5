"""PostgreSQL crashes, stands still, is down, or loses the answer to a COMMIT, under load."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import pytest

from tests.faults.record import Fault, rounds
from tests.faults.stage import Stage, health
from tests.faults.stores import OwnPostgres
from tests.support.checker import check_quiet, check_saves
from tests.support.counted import counted
from tests.support.http_load import HttpLedger, HttpUsers, new_key, open_sessions
from tests.support.load import BusLoad, Saves, make_tenant, under
from tests.support.proxy import AtCommit
from tests.support.services import Service
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(120 + 60 * rounds())

SESSIONS: Final = 6
MOST_RETRIES: Final = 12
"""Of one batch in a minute: waits double from 0.2 s to 30 s."""


@pytest.fixture
def postgres(own_database: OwnPostgres) -> Iterator[OwnPostgres]:
    """The PostgreSQL to be crashed and frozen; sound again afterwards."""
    yield own_database
    own_database.recover()


async def test_a_database_that_crashes_in_the_middle_of_a_batch_costs_nothing_but_time(
    stage: Stage, postgres: OwnPostgres, fault: Fault
) -> None:
    tenant = await make_tenant(stage.database_url, stage.rng)
    load = BusLoad(await stage.bus(), Saves(tenant, stage.rng), stage.ledger)
    consumers = await stage.start("save", "save")
    async with under(load):
        for _ in range(fault.rounds):
            moment = stage.rng.choice((AtCommit.HOLD_REQUEST, AtCommit.HOLD_ANSWER))
            await stage.database_proxy.meet_commit(moment, marker=b"agents.memory-save")
            await stage.disconnect()
            postgres.crash()
            stage.database_proxy.heal()
            retried = await retries(consumers)
            await eventually(partial(have_retried, consumers, 5 + retried), what="the consumers try again")
            sent = list(stage.ledger.accepted)
            postgres.start()
            await eventually(partial(stage.completed, sent), what="work goes on", seconds=60)
            fault.injected += 1
    await stage.settled()

    assert [consumer.process.poll() for consumer in consumers] == [None, None]
    database = await stage.database()
    assert await check_saves(database, stage.ledger) == ()
    assert await check_quiet(database) == ()
    assert await stage.dead_letters() == 0


async def retries(consumers: Sequence[Service]) -> float:
    """How often all of them together have tried again."""
    return sum([await counted(consumer.url, "lorebus_retried") for consumer in consumers])


async def have_retried(consumers: Sequence[Service], times: float) -> bool:
    """Whether that was this often."""
    return await retries(consumers) >= times


@pytest.mark.parametrize("how", ["stands still", "is down"])
async def test_a_database_that_is_away_is_waited_for_without_haste_while_saves_are_accepted(
    how: str, stage: Stage, postgres: OwnPostgres, fault: Fault
) -> None:
    ledger = HttpLedger()
    tenant = await make_tenant(stage.database_url, stage.rng)
    gateway, save = await stage.start("gateway", "save")
    sessions = await open_sessions(
        gateway.url, await new_key(stage.database_url, tenant), tenant, count=SESSIONS
    )
    async with under(HttpUsers([gateway.url], sessions, ledger, stage.rng, loads=False)):
        for _ in range(fault.outages):
            await stage.accepts(20, ledger=ledger)
            retried = await counted(save.url, "lorebus_retried")
            await stage.disconnect()
            (postgres.freeze if how == "stands still" else postgres.crash)()
            await fault.lasts()
            await stage.accepts(20, ledger=ledger)
            live, ready = await health(save, "/live"), await health(save, "/ready")
            retried = await counted(save.url, "lorebus_retried") - retried
            sent = list(ledger.accepted)
            postgres.recover()
            fault.injected += 1
            assert (live.status_code, ready.status_code) == (200, 503)
            assert ready.json()["problems"] == ["PostgreSQL does not answer; waiting for it"]
            assert retried <= MOST_RETRIES
            await eventually(partial(stage.completed, sent), what="work goes on", seconds=60)
    await stage.settled()

    assert [answer.status_code for answer in ledger.refusals] == []
    database = await stage.database()
    assert await check_saves(database, ledger) == ()
    assert await check_quiet(database) == ()
    assert await stage.dead_letters() == 0


async def test_when_the_answer_to_commit_is_lost_the_redelivery_finds_the_work_done(
    stage: Stage, fault: Fault
) -> None:
    tenant = await make_tenant(stage.database_url, stage.rng)
    load = BusLoad(await stage.bus(), Saves(tenant, stage.rng), stage.ledger)
    (consumer,) = await stage.start("save")
    async with under(load):
        await stage.accepts(20)
        for _ in range(fault.rounds):
            await stage.database_proxy.meet_commit(AtCommit.LOSE_ANSWER, marker=b"agents.memory-save")
            stage.database_proxy.heal()
            sent = list(stage.ledger.accepted)
            await eventually(partial(stage.completed, sent), what="work goes on", seconds=60)
            fault.injected += 1
    await stage.settled()

    assert await counted(consumer.url, "lorebus_duplicate") > 0
    database = await stage.database()
    assert await check_saves(database, stage.ledger) == ()
    assert await check_quiet(database) == ()
    assert await stage.dead_letters() == 0
