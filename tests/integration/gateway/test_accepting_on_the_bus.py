"""Accepting on a real broker: published before the answer, and nothing in the store."""

import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4, uuid5

import httpx
import pytest
from aiokafka import AIOKafkaConsumer

from lorebus_domain.visibility import NoCaller
from lorebus_kit.tokens import SessionClaims, SessionTokens
from tests.support.gateways import NOBODY, TOKEN_SECRET, Asking, running_gateway, serving

BOB = {"kind": "end_user", "ref": "bob"}


@pytest.fixture
async def on_bus(database_url: str, bootstrap_servers: str, topics: str) -> AsyncIterator[Asking]:
    """A gateway that accepts on the bus."""
    async with running_gateway(
        database_url, accept="bus", bootstrap_servers=bootstrap_servers, topic_prefix=topics
    ) as asking:
        yield asking


async def published(bootstrap_servers: str, topic: str, count: int = 1) -> Sequence[Any]:
    """The first records of a topic."""
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest")
    await consumer.start()
    try:
        return [await consumer.getone() for _ in range(count)]
    finally:
        await consumer.stop()


async def test_a_save_is_on_the_bus_and_initiated_though_no_row_is_there(
    on_bus: Asking, bootstrap_servers: str, topics: str
) -> None:
    config = await on_bus.config()
    session = await on_bus.session(config, BOB)

    answer = await on_bus.save(session, {"content": "on the bus"})

    assert answer.status_code == 202
    assert not await on_bus.rows("SELECT id FROM lorebus.workflow_runs")
    assert not await on_bus.rows("SELECT id FROM lorebus.outbox")
    (record,) = await published(bootstrap_servers, topics + "memory.save-requested")
    event = json.loads(record.value)
    assert record.key == f"{config}|bob".encode()
    assert event["event_id"] == answer.json()["workflow_id"]
    path = f"/api/workflows/{event['event_id']}"
    for told in (await on_bus.ask("GET", path), await on_bus.ask("GET", path, token=session.token)):
        assert (told.status_code, told.json()["state_name"]) == (200, "initiated")
    history = await on_bus.ask("GET", f"{path}/history")
    assert [step["state_name"] for step in history.json()["history"]] == ["initiated"]


async def test_a_recall_is_published_behind_the_answer(
    on_bus: Asking, bootstrap_servers: str, topics: str
) -> None:
    session = await on_bus.session(await on_bus.config())

    recall_id = (await on_bus.load(session)).json()["recall_id"]

    (record,) = await published(bootstrap_servers, topics + "recall.recorded")
    assert record.key == str(session.uuid).encode()
    assert json.loads(record.value)["event_id"] == recall_id


async def test_the_end_of_a_session_is_published_and_its_distill_shows_at_once(
    on_bus: Asking, bootstrap_servers: str, topics: str
) -> None:
    session = await on_bus.session(await on_bus.config(), BOB)

    answer = await on_bus.ask(
        "POST", f"/api/app/agents/sessions/{session.uuid}/end", json={"outcome": "success", "step_count": 2}
    )

    (record,) = await published(bootstrap_servers, topics + "session.ended")
    assert json.loads(record.value)["caller"] == BOB
    run_id = answer.json()["workflow_id"]
    assert run_id == str(uuid5(session.uuid, "distill-run:v1"))
    assert (await on_bus.ask("GET", f"/api/workflows/{run_id}")).json()["state_name"] == "initiated"
    assert not await on_bus.rows("SELECT id FROM lorebus.outbox")


async def test_a_save_is_accepted_on_the_bus_while_the_store_is_away(
    bootstrap_servers: str, topics: str
) -> None:
    session_uuid = UUID("00000000-0000-4000-8000-0000000000e1")
    claims = SessionClaims(uuid4(), uuid4(), session_uuid, NoCaller())
    token, _ = SessionTokens([TOKEN_SECRET], lifetime=timedelta(minutes=5)).mint(
        claims, now=datetime.now(UTC)
    )
    database = f"postgresql://nobody@{NOBODY}/none"

    async with (
        serving(database, accept="bus", bootstrap_servers=bootstrap_servers, topic_prefix=topics) as url,
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=30.0) as client,
    ):
        answer = await client.post(
            f"/api/agents/sessions/{session_uuid}/memory-save",
            json={"content": "kept all the same"},
            headers={"authorization": f"Agent {token}"},
        )
        ready = await client.get("/health/ready")

    assert (answer.status_code, ready.status_code) == (202, 200)
    (record,) = await published(bootstrap_servers, topics + "memory.save-requested")
    assert json.loads(record.value)["event_id"] == answer.json()["workflow_id"]


async def test_the_relay_in_the_gateway_publishes_what_the_store_accepted(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    async with running_gateway(
        database_url, accept="store", bootstrap_servers=bootstrap_servers, topic_prefix=topics
    ) as gateway:
        session = await gateway.session(await gateway.config())
        answer = await gateway.save(session, {"content": "through the store"})

        (record,) = await published(bootstrap_servers, topics + "memory.save-requested")

        assert json.loads(record.value)["event_id"] == answer.json()["workflow_id"]

        async def is_empty() -> bool:
            return not await gateway.rows("SELECT id FROM lorebus.outbox")

        await gateway.until(is_empty)
