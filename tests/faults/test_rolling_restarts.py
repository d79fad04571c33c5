"""Every service is stopped with SIGTERM and started again, one after the other, under load."""

import asyncio
from typing import Final

import pytest

from tests.faults.record import CI_ROUNDS, Fault, rounds
from tests.faults.stage import Stage
from tests.support.checker import check_distills, check_quiet, check_recalls, check_saves
from tests.support.http_load import HttpLedger, HttpUsers, new_key, open_sessions
from tests.support.load import BusLoad, Sessions, make_tenant, under
from tests.support.proxy import FaultProxy

pytestmark = pytest.mark.timeout(150 + 60 * rounds())

STOP_SECONDS: Final = 30.0
"""The promise: a service ends within this time of SIGTERM."""
SESSIONS: Final = 6
STORES: Final = ("database", "broker") if rounds() > CI_ROUNDS else ("database",)


async def test_a_rolling_restart_of_every_service_loses_and_doubles_nothing(
    stage: Stage, fault: Fault
) -> None:
    ledger = HttpLedger()
    # Distilled lessons are another organization's, so that each checker looks at its own.
    tenant, taught = [await make_tenant(stage.database_url, stage.rng) for _ in range(2)]
    started = await stage.start("gateway", "gateway", "save", "distill", "recall_labeller", "prune")
    gateways = [service.url for service in started[:2]]
    sessions = await open_sessions(
        gateways[0], await new_key(stage.database_url, tenant), tenant, count=SESSIONS
    )
    users = HttpUsers(gateways, sessions, ledger, stage.rng)
    # No faster than they are distilled, so that no backlog is left however long it goes on.
    ends = BusLoad(await stage.bus(), Sessions(taught, stage.rng), stage.ledger, per_second=5.0)
    async with under(users, ends):
        for _ in range(max(1, fault.rounds // 2)):
            for service in started:
                await stage.accepts(10, ledger=ledger)
                assert await service.stop(seconds=STOP_SECONDS) == 0
                service.start()
                await service.ready()
                fault.injected += 1
    await stage.settled()

    assert ledger.refusals == []
    assert ledger.failed_loads == []
    database = await stage.database()
    assert await check_saves(database, ledger, organization=tenant.organization_uuid) == ()
    assert await check_recalls(database, ledger.recalls) == ()
    assert await check_distills(database, stage.ledger, organization=taught.organization_uuid) == ()
    assert await check_quiet(database) == ()
    assert await stage.dead_letters() == 0


@pytest.mark.parametrize("store", STORES)
async def test_services_stop_in_time_while_a_store_does_not_answer(
    store: str, stage: Stage, broker_proxy: FaultProxy, fault: Fault
) -> None:
    tenant = await make_tenant(stage.database_url, stage.rng)
    load = BusLoad(await stage.bus(), Sessions(tenant, stage.rng), stage.ledger, per_second=20.0)
    started = await stage.start("gateway", "save", "distill", "recall_labeller")
    async with under(load):
        await stage.accepts(50)
        (stage.database_proxy if store == "database" else broker_proxy).black_hole()
        fault.injected += 1
        codes = await asyncio.gather(*(service.stop(seconds=STOP_SECONDS) for service in started))
        stage.database_proxy.heal()
        broker_proxy.heal()
        for service in started:
            service.start()
        await asyncio.gather(*(service.ready() for service in started))
    await stage.end_leases()
    await stage.settled()

    assert codes == [0, 0, 0, 0]
    database = await stage.database()
    assert await check_distills(database, stage.ledger) == ()
    assert await check_quiet(database) == ()
    assert await stage.dead_letters() == 0
