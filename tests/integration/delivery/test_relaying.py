"""The relay and the sweeper: what waits in the store reaches the bus, in each key's order, whoever comes and goes."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from lorebus_contracts.events import Event
from lorebus_contracts.topics import PRUNE_REQUESTED
from lorebus_contracts.workflows import WorkflowType
from lorebus_kit.bus import BusProducer
from lorebus_kit.emitting import outbox_row
from lorebus_kit.relay import Relay
from lorebus_kit.sweeper import Sweeper
from lorebus_store import outbox, runs
from lorebus_store.run_rows import InitiatedRun
from tests.support.databases import ArrangedDatabase, execute
from tests.support.events import Scope, new_scope, prune
from tests.support.waiting import eventually
from tests.support.wire import Wire
from tests.unit.kit.delivery_fakes import FakeBus


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[ArrangedDatabase]:
    made = ArrangedDatabase(database_url)
    yield made
    await made.dispose()


@asynccontextmanager
async def at_work(*relays: Relay) -> AsyncIterator[None]:
    """These relays, until the block ends."""
    stop = asyncio.Event()
    tasks = [asyncio.create_task(relay.run(stop)) for relay in relays]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)


@asynccontextmanager
async def producer(bootstrap_servers: str, prefix: str) -> AsyncIterator[BusProducer]:
    bus = BusProducer(bootstrap_servers, topic_prefix=prefix)
    await bus.start(wait_seconds=30.0)
    try:
        yield bus
    finally:
        await bus.stop()


async def wait_in_the_store(database: ArrangedDatabase, *events: Event) -> None:
    async with database.begin() as connection:
        await outbox.add(connection, [outbox_row(event) for event in events])


async def emptied(database: ArrangedDatabase) -> None:
    async def is_empty() -> bool:
        async with database.read() as connection:
            return (await outbox.depth(connection)).rows == 0

    await eventually(is_empty, what="the outbox is empty")


def order_of(events: Sequence[tuple[bytes, UUID]]) -> dict[bytes, list[UUID]]:
    """The event ids of each key, in order."""
    found: dict[bytes, list[UUID]] = {}
    for key, event_id in events:
        found.setdefault(key, []).append(event_id)
    return found


async def test_two_relays_publish_every_row_in_the_order_of_its_key_and_then_delete_it(
    database: ArrangedDatabase, bootstrap_servers: str, topics: str
) -> None:
    scopes = [new_scope() for _ in range(5)]
    events = [prune(scopes[number % 5], number) for number in range(300)]
    async with (
        producer(bootstrap_servers, topics) as one,
        producer(bootstrap_servers, topics) as two,
        Wire(bootstrap_servers, topics) as wire,
    ):
        async with at_work(Relay(database, one), Relay(database, two)):
            for start in range(0, 300, 25):
                await wait_in_the_store(database, *events[start : start + 25])
            await emptied(database)
        records = await wire.read(PRUNE_REQUESTED.name)
    published = [(record.key, UUID(json.loads(record.value)["event_id"])) for record in records]
    assert order_of(published) == order_of([(event.key(), event.event_id) for event in events])


async def test_rows_that_the_bus_refuses_wait_and_are_published_in_their_order_once_it_takes_them(
    database: ArrangedDatabase,
) -> None:
    scope = new_scope()
    events = [prune(scope, number) for number in range(3)]
    await wait_in_the_store(database, *events)
    bus = FakeBus(refusals=4)
    async with at_work(Relay(database, bus)):
        await emptied(database)
    published = [json.loads(record.value or b"")["max_entries"] for record in bus.published]
    assert published[-3:] == [0, 1, 2]
    assert set(published) == {0, 1, 2}


async def test_a_relay_that_died_is_followed_by_another_once_its_lease_has_run_out(
    database: ArrangedDatabase, database_url: str
) -> None:
    await wait_in_the_store(database, prune(new_scope()))
    async with database.begin() as connection:
        assert await outbox.lease_shards(connection, token=uuid4(), seconds=3600.0)
    bus = FakeBus()
    async with at_work(Relay(database, bus)):
        await execute(database_url, "UPDATE lorebus.outbox_leases SET leased_until = now()")
        await emptied(database)
    assert len(bus.published) == 1


async def test_a_relay_that_is_told_to_stop_publishes_what_is_there(database: ArrangedDatabase) -> None:
    await wait_in_the_store(database, prune(new_scope()))
    bus, stop = FakeBus(), asyncio.Event()
    stop.set()
    await Relay(database, bus).run(stop)
    assert len(bus.published) == 1


def waiting_run(event: Event, pending_input: bytes) -> InitiatedRun:
    """A prune that was accepted through the store."""
    return InitiatedRun(
        organization_uuid=event.organization_uuid,
        id=event.event_id,
        type=WorkflowType.MEMORY_PRUNE,
        agent_config_uuid=event.agent_config_uuid,
        session_uuid=None,
        pending_input=pending_input,
        created_at=datetime.now(UTC),
    )


async def accept(database: ArrangedDatabase, url: str, *accepted: InitiatedRun) -> None:
    """Runs that have waited for a minute."""
    async with database.begin() as connection:
        await runs.insert_initiated(connection, *accepted)
    await execute(url, "UPDATE lorebus.workflow_runs SET updated_at = now() - interval '1 minute'")


async def test_a_run_that_stays_initiated_is_put_on_the_bus_again_with_its_own_bytes(
    database: ArrangedDatabase, database_url: str
) -> None:
    event = prune(Scope(uuid4(), uuid4()), 7)
    raw = event.model_dump_json(indent=1).encode()
    await accept(database, database_url, waiting_run(event, raw))
    bus = FakeBus()
    relay = Relay(database, bus)
    assert await Sweeper(database, relay).sweep() == 1
    assert await Sweeper(database, relay).sweep() == 0
    async with at_work(relay):
        await emptied(database)
    assert [(record.key, record.value) for record in bus.published] == [(event.key(), raw)]


async def test_a_run_whose_event_cannot_be_read_does_not_keep_the_others_back(
    database: ArrangedDatabase, database_url: str
) -> None:
    sound, broken = prune(new_scope()), prune(new_scope())
    await accept(
        database,
        database_url,
        waiting_run(sound, sound.model_dump_json().encode()),
        waiting_run(broken, b'{"schema_version": 0}'),
    )
    bus = FakeBus()
    relay = Relay(database, bus)
    await Sweeper(database, relay).sweep()
    async with at_work(relay):
        await emptied(database)
    assert [record.key for record in bus.published] == [sound.key()]


async def test_what_waited_in_the_outbox_has_time_to_be_handled_before_it_is_put_on_the_bus_again(
    database: ArrangedDatabase, database_url: str
) -> None:
    event, now = prune(new_scope()), [100.0]
    await accept(database, database_url, waiting_run(event, event.model_dump_json().encode()))
    relay = Relay(database, FakeBus())
    sweeper = Sweeper(database, relay, clock=lambda: now[0])
    async with database.begin() as connection:
        await outbox.add(connection, [outbox_row(event)])
    await execute(database_url, "UPDATE lorebus.outbox SET created_at = now() - interval '1 minute'")
    assert await sweeper.sweep() == 0
    async with at_work(relay):
        await emptied(database)

    now[0] += 19.0
    assert await sweeper.sweep() == 0
    now[0] += 2.0
    assert await sweeper.sweep() == 1
