"""The live tail over HTTP: an organization hears of its own changes, all of them, from any gateway."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID, uuid4

import httpx
import pytest

from lorebus_contracts.events import ChangeKind, MemoryChanged
from lorebus_kit.keys import create_key
from lorebus_kit.metrics import REGISTRY
from lorebus_kit.topics import apply_topics
from tests.support.feeds import PATH, following
from tests.support.gateways import Asking, running_gateway, serving
from tests.support.waiting import eventually, until
from tests.support.wire import Wire

Bus = tuple[Asking, Wire]


@pytest.fixture
async def bus(database_url: str, bootstrap_servers: str, topics: str) -> AsyncIterator[Bus]:
    """A gateway on a real broker, and the wire to tell of changes."""
    async with (
        running_gateway(
            database_url, accept="bus", bootstrap_servers=bootstrap_servers, topic_prefix=topics
        ) as gateway,
        Wire(bootstrap_servers, topics) as wire,
    ):
        yield gateway, wire


def change(
    organization: UUID, *, config: UUID | None = None, kind: ChangeKind = ChangeKind.SAVED
) -> MemoryChanged:
    return MemoryChanged(
        event_id=uuid4(),
        occurred_at=datetime.now(UTC),
        organization_uuid=organization,
        agent_config_uuid=config or uuid4(),
        kind=kind,
        ids=(uuid4(),),
        count=1,
    )


def feeds() -> float:
    return REGISTRY.get_sample_value("lorebus_feeds") or 0.0


def dropped() -> float:
    return REGISTRY.get_sample_value("lorebus_feeds_dropped_total") or 0.0


@contextlib.asynccontextmanager
async def another_gateway(
    gateway: Asking, database_url: str, bootstrap_servers: str, topics: str
) -> AsyncIterator[Asking]:
    """A second process's gateway, as the same organization sees it."""
    async with (
        serving(database_url, accept="bus", bootstrap_servers=bootstrap_servers, topic_prefix=topics) as url,
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=30.0) as client,
    ):
        yield replace(gateway, url=url, client=client)


async def test_a_change_is_told_with_all_that_its_event_says(bus: Bus) -> None:
    gateway, wire = bus
    async with following(gateway) as feed:
        assert feed.answer.headers["content-type"] == "text/event-stream"
        assert (await feed.ready()).data == {"replayed": 0}

        sent = change(gateway.organization_uuid)
        await wire.send(sent)

        told = await feed.next()
    assert told.name == "memory.changed"
    assert told.data == sent.model_dump(mode="json")
    assert sorted(part[0] for part in told.id.split(",")) == ["p", "p"]


async def test_a_save_is_told_from_the_outbox_to_the_client(bus: Bus) -> None:
    gateway, _ = bus
    config = await gateway.config()
    (entry,) = await gateway.remember(config, "is deleted")
    async with following(gateway) as feed:
        await feed.ready()

        await gateway.ask("DELETE", f"/api/app/agents/memory/{entry}")

        told = await feed.next()
    assert (told.data["kind"], told.data["ids"], told.data["count"]) == ("deleted", [str(entry)], 1)


async def test_nobody_hears_of_another_organization(bus: Bus) -> None:
    gateway, wire = bus
    other = uuid4()
    other_key = await create_key(gateway.database, other, name="test")
    config = uuid4()
    async with following(gateway) as ours, following(gateway, key=other_key) as theirs:
        await ours.ready()
        await theirs.ready()

        for organization in (other, gateway.organization_uuid, other, gateway.organization_uuid):
            await wire.send(change(organization, config=config))

        told_us, told_them = await ours.take(2), await theirs.take(2)
    assert {told.data["organization_uuid"] for told in told_us} == {str(gateway.organization_uuid)}
    assert {told.data["organization_uuid"] for told in told_them} == {str(other)}


async def test_a_replay_holds_nothing_of_another_organization(bus: Bus) -> None:
    gateway, wire = bus
    config = uuid4()
    async with following(gateway) as feed:
        here = (await feed.ready()).id
    await wire.send(change(uuid4(), config=config), change(gateway.organization_uuid, config=config))

    async with following(gateway, last_event_id=here) as feed:
        told = await feed.next()
        assert (await feed.ready()).data == {"replayed": 1}
    assert told.data["organization_uuid"] == str(gateway.organization_uuid)


async def test_a_feed_tells_of_one_agent_config_or_one_kind_where_that_is_asked_for(bus: Bus) -> None:
    gateway, wire = bus
    organization, config = gateway.organization_uuid, await gateway.config()
    async with (
        following(gateway, agent_config_uuid=config) as of_config,
        following(gateway, kind="pruned") as of_kind,
    ):
        await of_config.ready()
        await of_kind.ready()

        await wire.send(change(organization))
        await wire.send(change(organization, kind=ChangeKind.PRUNED))
        await wire.send(change(organization, config=config))
        await wire.send(change(organization, config=config, kind=ChangeKind.PRUNED))

        told = await of_config.take(2), await of_kind.take(2)
    assert [one.data["agent_config_uuid"] for one in told[0]] == [str(config)] * 2
    assert [one.data["kind"] for one in told[1]] == ["pruned"] * 2


async def test_a_client_that_comes_back_is_told_what_it_missed_by_any_gateway(
    bus: Bus, database_url: str, bootstrap_servers: str, topics: str
) -> None:
    gateway, wire = bus
    sent = [change(gateway.organization_uuid) for _ in range(40)]
    async with following(gateway) as feed:
        await feed.ready()
        await wire.send(*sent[:20])
        seen = await feed.take(10)
    await wire.send(*sent[20:])

    async with (
        another_gateway(gateway, database_url, bootstrap_servers, topics) as other,
        following(other, last_event_id=seen[-1].id) as feed,
    ):
        seen += await feed.take(30)
        assert (await feed.ready()).data == {"replayed": 30}
    assert len(seen) == 40
    assert {told.data["event_id"] for told in seen} == {str(event.event_id) for event in sent}


async def test_what_is_told_after_a_replay_comes_once(bus: Bus) -> None:
    gateway, wire = bus
    async with following(gateway) as feed:
        here = (await feed.ready()).id
    await wire.send(change(gateway.organization_uuid))
    async with following(gateway, last_event_id=here) as feed:
        missed = await feed.next()
        await feed.ready()

        await wire.send(change(gateway.organization_uuid))

        live = await feed.next()
    assert missed.data["event_id"] != live.data["event_id"]
    async with following(gateway, last_event_id=live.id) as feed:
        assert (await feed.ready()).data == {"replayed": 0}


@pytest.mark.parametrize(
    ("last_event_id", "reason"),
    [
        ("p0:5000,p1:0", "too_old"),
        ("p0:0,p1:0,p7:0", "too_old"),
        ("17", "unknown_id"),
        ("p0:1,p0:2", "unknown_id"),
    ],
)
async def test_a_gap_is_told_where_nobody_knows_what_was_missed(
    bus: Bus, last_event_id: str, reason: str
) -> None:
    gateway, wire = bus
    await wire.send(change(gateway.organization_uuid))

    async with following(gateway, last_event_id=last_event_id) as feed:
        gap = await feed.next()
        rest = [await feed.next()]
        while rest[-1].name != "ready":
            rest.append(await feed.next())
    assert (gap.name, gap.data) == ("gap", {"reason": reason})


async def test_a_quiet_feed_beats_and_moves_its_clients_id_on(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    settings = {"bootstrap_servers": bootstrap_servers, "topic_prefix": topics}
    async with (
        running_gateway(database_url, **settings, feed_heartbeat_seconds=0.1) as gateway,
        Wire(bootstrap_servers, topics) as wire,
        following(gateway) as feed,
    ):
        here = await feed.ready()
        assert (await feed.next(heartbeats=True)).id == here.id

        await wire.send(*(change(uuid4()) for _ in range(5)))

        async def moved_on() -> bool:
            told = await feed.next(heartbeats=True)
            assert told.name == "heartbeat"
            return sum(int(part.partition(":")[2]) for part in told.id.split(",")) == 5

        await eventually(moved_on, what="the id moves on")


async def test_a_client_that_does_not_read_is_cut_off_and_holds_up_nobody(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    settings = {"bootstrap_servers": bootstrap_servers, "topic_prefix": topics, "feed_queue": 50}
    async with (
        running_gateway(database_url, **settings) as gateway,
        Wire(bootstrap_servers, topics) as wire,
        following(gateway) as reading,
    ):
        await reading.ready()
        before, dropped_before = feeds(), dropped()
        reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
        # A small window, so that little is on the way when the client stops reading.
        request = f"GET {PATH} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {gateway.api_key}\r\n\r\n"
        writer.write(request.encode())
        await reader.readuntil(b"event: ready")
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # A socket's transport can.
        await until(lambda: feeds() == before + 1, what="the slow client listens")

        sent = 0
        while feeds() == before + 1:
            big = [
                change(gateway.organization_uuid).model_copy(
                    update={"ids": tuple(uuid4() for _ in range(1_000)), "count": 1_000}
                )
                for _ in range(20)
            ]
            await wire.send(*big)
            sent += len(await reading.take(len(big)))

        assert feeds() == before
        assert sent < 10_000
        assert (dropped() - dropped_before) == 1
        writer.transport.abort()


async def test_a_client_that_is_gone_leaves_nothing_behind(bus: Bus) -> None:
    gateway, _ = bus
    before = feeds()
    async with following(gateway) as feed:
        await feed.ready()
        assert feeds() == before + 1
    await until(lambda: feeds() == before, what="the feed is closed")


async def test_a_feed_begins_when_the_broker_is_there(
    database_url: str, bootstrap_servers: str, topic_prefix: str
) -> None:
    settings = {"bootstrap_servers": bootstrap_servers, "topic_prefix": topic_prefix}
    async with (
        running_gateway(database_url, **settings, feed_heartbeat_seconds=0.1) as gateway,
        following(gateway) as feed,
    ):
        assert (await feed.next(heartbeats=True)).name == "heartbeat"
        assert (await feed.next(heartbeats=True)).name == "heartbeat"
        await apply_topics(bootstrap_servers, prefix=topic_prefix, partitions=2)
        await feed.ready()
        async with Wire(bootstrap_servers, topic_prefix) as wire:
            await wire.send(change(gateway.organization_uuid))
        assert (await feed.next()).name == "memory.changed"


async def test_a_record_that_is_no_change_is_passed_over(bus: Bus) -> None:
    gateway, wire = bus
    async with following(gateway) as feed:
        await feed.ready()
        await wire.send_raw("memory.changed", b"{", key=b"k", partition=0)
        await wire.send_raw("memory.changed", None, key=b"k", partition=0, headers=[("h", b"\xff")])
        await wire.send(change(gateway.organization_uuid), partition=0)
        assert (await feed.next()).name == "memory.changed"


async def test_a_feed_ends_after_its_longest_time(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    settings = {"bootstrap_servers": bootstrap_servers, "topic_prefix": topics}
    limits = {"feed_heartbeat_seconds": 0.05, "feed_longest_seconds": 0.2}
    async with (
        running_gateway(database_url, **settings, **limits) as gateway,
        following(gateway) as feed,
    ):
        names = [told.name for told in await feed.rest()]
    assert set(names) <= {"heartbeat", "ready"}


async def test_a_stop_ends_every_feed_at_once(
    bus: Bus, database_url: str, bootstrap_servers: str, topics: str
) -> None:
    gateway, _ = bus
    # Far longer than the feed's end is waited for.
    settings = {"bootstrap_servers": bootstrap_servers, "topic_prefix": topics, "stop_seconds": 90.0}
    async with contextlib.AsyncExitStack() as other:
        url = await other.enter_async_context(serving(database_url, **settings))
        async with (
            httpx.AsyncClient(base_url=url, trust_env=False, timeout=30.0) as client,
            following(replace(gateway, url=url, client=client)) as feed,
        ):
            await feed.ready()
            stopping = asyncio.create_task(other.aclose())
            assert {told.name for told in await feed.rest()} <= {"heartbeat"}
        await stopping


async def test_an_organization_has_no_more_feeds_than_it_may(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    settings = {"bootstrap_servers": bootstrap_servers, "topic_prefix": topics, "feeds_per_organization": 1}
    async with running_gateway(database_url, **settings) as gateway, following(gateway) as feed:
        await feed.ready()

        answer = await gateway.ask("GET", PATH)

        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) > 0
        other_key = await create_key(gateway.database, uuid4(), name="test")
        async with following(gateway, key=other_key) as theirs:
            await theirs.ready()


async def test_a_feed_is_refused_with_what_is_wrong(gateway: Asking) -> None:
    unknown = await gateway.ask("GET", PATH, params={"agent_config_uuid": uuid4()})
    bad_kind = await gateway.ask("GET", PATH, params={"kind": "created"})
    no_key = await gateway.ask("GET", PATH, key="nobody's")

    assert [answer.status_code for answer in (unknown, bad_kind, no_key)] == [404, 422, 401]
    assert [fault["path"] for fault in bad_kind.json()["faults"]] == ["kind"]


async def test_the_head_of_a_feed_is_answered_without_one(gateway: Asking) -> None:
    answer = await gateway.client.head(PATH, headers={"authorization": f"Bearer {gateway.api_key}"})

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
    assert feeds() == 0
