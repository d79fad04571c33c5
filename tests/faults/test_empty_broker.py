"""The local broker is restarted and has forgotten everything; PostgreSQL has not."""

import signal
from functools import partial
from typing import Final

import pytest

from lorebus_kit.topics import apply_topics
from tests.faults.record import Fault, rounds
from tests.faults.stage import Stage
from tests.faults.stores import OwnTansu
from tests.support.checker import check_quiet, check_saves
from tests.support.counted import counted
from tests.support.http_load import HttpLedger, HttpUsers, new_key, open_sessions
from tests.support.load import make_tenant, under
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(120 + 60 * rounds())

SWEPT_SECONDS: Final = 60.0
"""Runs are taken for stale after 20 s and looked for every 5 s."""
SESSIONS: Final = 6


async def test_runs_that_were_accepted_complete_though_the_broker_forgot_them(
    stage: Stage, broker: OwnTansu, fault: Fault
) -> None:
    ledger = HttpLedger()
    tenant = await make_tenant(stage.database_url, stage.rng)
    gateway, save = await stage.start("gateway", "save", settings={"LOREBUS_ACCEPT": "store"})
    key = await new_key(stage.database_url, tenant)
    sessions = await open_sessions(gateway.url, key, tenant, count=SESSIONS)
    for _ in range(fault.outages):
        save.signal(signal.SIGSTOP)
        async with under(HttpUsers([gateway.url], sessions, ledger, stage.rng, loads=False)):
            await stage.accepts(50, ledger=ledger)
        await eventually(
            partial(stage.fetch, "SELECT count(*) = 0 FROM lorebus.outbox"), what="all are on the bus"
        )
        broker.restart_empty()
        await apply_topics(stage.bootstrap_servers, prefix=stage.topic_prefix, partitions=stage.partitions)
        save.signal(signal.SIGCONT)
        fault.injected += 1
        await eventually(
            partial(stage.completed, list(ledger.accepted)), what="the runs complete", seconds=SWEPT_SECONDS
        )

    await stage.settled()

    assert ledger.refusals == []
    assert await counted(gateway.url, "lorebus_swept") + await counted(save.url, "lorebus_swept") > 0
    database = await stage.database()
    assert await check_saves(database, ledger) == ()
    assert await check_quiet(database) == ()
