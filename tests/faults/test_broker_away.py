"""The broker cannot be reached: saves are accepted through PostgreSQL meanwhile, and loads do not notice."""

from functools import partial
from time import monotonic
from typing import Final

import pytest

from tests.faults.record import Fault, rounds
from tests.faults.stage import Stage, grows
from tests.support.checker import check_quiet, check_recalls, check_saves
from tests.support.http_load import HttpLedger, HttpUsers, new_key, open_sessions
from tests.support.load import make_tenant, under
from tests.support.proxy import FaultProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(120 + 90 * rounds())

DELIVERED_SECONDS: Final = 10.0
"""The promise: within ten seconds of the broker's return everything accepted meanwhile is delivered."""
SESSIONS: Final = 6
LONGEST_SECONDS: Final = 4.0


async def test_while_the_broker_is_away_saves_are_accepted_and_delivered_within_ten_seconds_of_its_return(
    stage: Stage, broker_proxy: FaultProxy, fault: Fault
) -> None:
    ledger = HttpLedger()
    tenant = await make_tenant(stage.database_url, stage.rng)
    gateway, *_ = await stage.start("gateway", "save", "recall_labeller")
    key = await new_key(stage.database_url, tenant)
    sessions = await open_sessions(gateway.url, key, tenant, count=SESSIONS)
    async with under(HttpUsers([gateway.url], sessions, ledger, stage.rng)):
        for _ in range(fault.outages):
            await stage.accepts(20, ledger=ledger)
            broker_proxy.cut()
            await fault.lasts()
            await stage.accepts(20, ledger=ledger)
            await grows(lambda: len(ledger.recalls), by=5, what="answered loads")
            accepted = list(ledger.accepted)
            broker_proxy.heal()
            await eventually(
                partial(stage.completed, accepted), what="everything is delivered", seconds=DELIVERED_SECONDS
            )
            fault.injected += 1
    await stage.settled()

    assert ledger.refusals == []
    assert ledger.unsure == {}
    assert ledger.failed_loads == []
    database = await stage.database()
    assert await check_saves(database, ledger) == ()
    assert await check_recalls(database, ledger.recalls) == ()
    assert await check_quiet(database) == ()
    assert await stage.dead_letters() == 0


async def test_while_both_stores_are_away_saves_are_refused_whole_and_may_be_sent_again(
    stage: Stage, broker_proxy: FaultProxy, fault: Fault
) -> None:
    ledger = HttpLedger()
    tenant = await make_tenant(stage.database_url, stage.rng)
    gateway, *_ = await stage.start("gateway", "save", "recall_labeller")
    key = await new_key(stage.database_url, tenant)
    sessions = await open_sessions(gateway.url, key, tenant, count=SESSIONS)
    async with under(HttpUsers([gateway.url], sessions, ledger, stage.rng)):
        for _ in range(fault.outages):
            await stage.accepts(20, ledger=ledger)
            stage.database_proxy.cut()
            broker_proxy.cut()
            cut_at = monotonic()
            await fault.lasts()
            await grows(lambda: len(ledger.refusals), by=3, what="refused saves")
            ledger.doubt_those_sent_before(cut_at)
            stage.database_proxy.heal()
            broker_proxy.heal()
            await stage.accepts(20, ledger=ledger)
            fault.injected += 1
    await stage.settled()

    assert {(answer.status_code, answer.headers["content-type"]) for answer in ledger.refusals} == {
        (503, "application/problem+json")
    }
    assert {answer.json()["type"] for answer in ledger.refusals} == {"urn:lorebus:problem:unavailable"}
    assert all(int(answer.headers["retry-after"]) > 0 for answer in ledger.refusals)
    assert len(ledger.refused) > 0
    database = await stage.database()
    assert await check_saves(database, ledger) == ()
    assert await check_recalls(database, ledger.recalls) == ()
    assert await check_quiet(database) == ()
    assert await stage.dead_letters() == 0


async def test_a_save_sent_again_with_its_key_until_it_is_accepted_counts_once_whatever_was_away(
    stage: Stage, broker_proxy: FaultProxy, fault: Fault
) -> None:
    ledger = HttpLedger()
    tenant = await make_tenant(stage.database_url, stage.rng)
    gateways = await stage.start("gateway", "gateway")
    await stage.start("save")
    urls = [gateway.url for gateway in gateways]
    key = await new_key(stage.database_url, tenant)
    sessions = await open_sessions(urls[0], key, tenant, count=SESSIONS)
    users = HttpUsers(urls, sessions, ledger, stage.rng, loads=False, keys=True)
    async with under(users):
        for number in range(fault.rounds):
            await stage.accepts(20, ledger=ledger)
            stage.database_proxy.cut()
            if number % 2 == 0:
                # Kafka takes the saves, and nobody can know it.
                broker_proxy.lose_answers()
                await grows(lambda: len(ledger.refusals), by=SESSIONS, what="refused saves")
            else:
                gateways[0].kill()
                await fault.lasts(stage.rng.uniform(0.0, LONGEST_SECONDS))
                gateways[0].start()
            stage.database_proxy.heal()
            broker_proxy.heal()
            fault.injected += 1
        await stage.accepts(20, ledger=ledger)
    ledger.doubt_those_sent_before(monotonic())
    await stage.settled()

    database = await stage.database()
    assert await check_saves(database, ledger) == ()
    assert await check_quiet(database) == ()
    assert await stage.dead_letters() == 0
