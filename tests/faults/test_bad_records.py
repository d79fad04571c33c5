"""Records that nobody can handle: among good ones, nothing but them, and with nowhere to put them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import pytest
from aiokafka import ConsumerRecord, TopicPartition

from lorebus_contracts.topics import SAVE_GROUP, SAVE_REQUESTED
from tests.faults.record import Fault, rounds
from tests.faults.stage import Stage, gauge, health
from tests.support.checker import check_quiet, check_saves
from tests.support.load import BusLoad, Saves, make_known, make_tenant, new_tenant, under
from tests.support.poison import Poison, poison_of, send_poison
from tests.support.proxy import FaultProxy
from tests.support.waiting import eventually
from tests.support.wire import Wire

pytestmark = pytest.mark.timeout(120 + 20 * rounds())

DELAY_SECONDS: Final = 5.0
"""The promise: bad records delay no partition's good ones for longer."""
LIMIT: Final = 20
KINDS: Final = 10


async def test_bad_records_among_good_ones_are_set_aside_as_they_were_and_delay_nobody(
    stage: Stage, fault: Fault
) -> None:
    tenant = await make_tenant(stage.database_url, stage.rng, configs=8)
    saves = Saves(tenant, stage.rng)
    sent: list[tuple[Poison, int]] = []
    await stage.start("save")
    async with Wire(stage.bootstrap_servers, stage.topic_prefix) as wire:
        async with under(BusLoad(await stage.bus(), saves, stage.ledger)):
            for _ in range(fault.rounds):
                for poison in poison_of(saves().model_dump_json().encode()):
                    partition = stage.rng.randrange(stage.partitions)
                    await send_poison(wire, SAVE_REQUESTED, poison, key=b"bad", partition=partition)
                    sent.append((poison, partition))
                fault.injected += KINDS
            await stage.accepts(50)
        await stage.settled()
        letters = await wire.dead_letters(SAVE_REQUESTED, SAVE_GROUP, count=len(sent))
        originals = await wire.read(SAVE_REQUESTED.name)

    database = await stage.database()
    assert [(letter.key, letter.value) for letter in letters] == [
        (b"bad", original.value) for original in _originals(letters, originals)
    ]
    assert Counter(told(letter, "error-type") for letter in letters) == Counter(
        poison.error_type for poison, _ in sent
    )
    assert Counter((letter.value, int(told(letter, "origin-partition"))) for letter in letters) == Counter(
        (poison.value, partition) for poison, partition in sent
    )
    assert await check_saves(database, stage.ledger) == ()
    assert await check_quiet(database) == ()
    slowest = "SELECT max(extract(epoch FROM finished_at - created_at))::float8 FROM lorebus.workflow_runs"
    assert await stage.fetch(slowest) <= DELAY_SECONDS


def told(letter: ConsumerRecord, name: str) -> str:
    """What a dead letter's header says."""
    headers: dict[str, bytes] = dict(letter.headers)
    return headers[f"lorebus-{name}"].decode()


def _originals(
    letters: Sequence[ConsumerRecord], records: Sequence[ConsumerRecord]
) -> Iterator[ConsumerRecord]:
    """The record that each dead letter says it was."""
    at = {(record.partition, record.offset): record for record in records}
    for letter in letters:
        yield at[int(told(letter, "origin-partition")), int(told(letter, "origin-offset"))]


async def test_a_consumer_that_finds_nothing_but_bad_records_stops_says_why_and_goes_on_when_mended(
    stage: Stage, fault: Fault
) -> None:
    tenant = new_tenant(stage.rng, configs=8)
    load = BusLoad(await stage.bus(), Saves(tenant, stage.rng), stage.ledger)
    (consumer,) = await stage.start("save", settings={"LOREBUS_DEAD_LETTER_LIMIT": str(LIMIT)})
    async with under(load):
        await stage.accepts(5 * LIMIT)
        await eventually(lambda: gauge(consumer, "lorebus_halted"), what="the consumer stops")
    halted = await health(consumer)
    live = await health(consumer, "/live")
    fault.injected += 1
    await make_known(stage.database_url, tenant)
    assert await consumer.stop() == 0
    consumer.start()
    await stage.settled()
    async with Wire(stage.bootstrap_servers, stage.topic_prefix) as wire:
        letters = await wire.dead_letters(SAVE_REQUESTED, SAVE_GROUP, count=LIMIT)
        for letter in letters:
            await wire.send_raw(SAVE_REQUESTED.name, letter.value, key=letter.key)
    await stage.settled()

    assert halted.status_code == 503
    (problem,) = halted.json()["problems"]
    assert problem == (
        f"halted: {LIMIT} records in a row could not be handled, the next one because of RejectedError:"
        " unknown_organization; nothing is lost, mend the cause and restart"
    )
    assert live.status_code == 200
    assert len(letters) == LIMIT
    database = await stage.database()
    assert await check_saves(database, stage.ledger) == ()
    assert await check_quiet(database) == ()
    assert await stage.dead_letters() == LIMIT


async def test_a_bad_record_whose_dead_letter_topic_is_away_is_not_acknowledged_and_others_go_on(
    stage: Stage, broker_proxy: FaultProxy, fault: Fault
) -> None:
    tenant = await make_tenant(stage.database_url, stage.rng, configs=8)
    await stage.start("save")
    async with Wire(stage.bootstrap_servers, stage.topic_prefix) as wire:
        async with under(BusLoad(await stage.bus(), Saves(tenant, stage.rng), stage.ledger)):
            broker_proxy.refuse(SAVE_REQUESTED.dead_letters(SAVE_GROUP).encode())
            await wire.send_raw(SAVE_REQUESTED.name, b"bad", key=b"bad", partition=0)
            bad = next(record for record in await wire.read(SAVE_REQUESTED.name) if record.value == b"bad")
            await stage.accepts(100)
            accepted = list(stage.ledger.accepted)
            await eventually(partial(stage.completed, accepted), what="the others are handled", seconds=60)
            before = await wire.committed(SAVE_GROUP, SAVE_REQUESTED)
            await eventually(lambda: others_moved(wire, before), what="the others are acknowledged")
            acknowledged = await wire.committed(SAVE_GROUP, SAVE_REQUESTED)
            fault.injected += 1
            broker_proxy.heal()
        await stage.settled()
        letters = await wire.dead_letters(SAVE_REQUESTED, SAVE_GROUP, count=1)

    assert acknowledged[stage.partitions_of(SAVE_REQUESTED.name)[0]] <= bad.offset
    assert [letter.value for letter in letters] == [b"bad"]
    database = await stage.database()
    assert await check_saves(database, stage.ledger) == ()
    assert await check_quiet(database) == ()


async def others_moved(wire: Wire, before: Mapping[TopicPartition, int]) -> bool:
    """Whether every partition but the first is acknowledged further than before."""
    now = await wire.committed(SAVE_GROUP, SAVE_REQUESTED)
    return all(now[tp] > offset for tp, offset in before.items() if tp.partition != 0)
