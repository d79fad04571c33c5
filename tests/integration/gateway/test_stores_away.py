"""Accepting while a store is away (ARCHITECTURE.md, "The gateway"): a 202 is durable, or there is a 503 and nothing."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import httpx
import pytest

from lorebus_domain.visibility import NoCaller
from lorebus_kit.tokens import SessionClaims, SessionTokens
from tests.support.gateways import NOBODY, TOKEN_SECRET, Asking, running_gateway, serving

AWAY_DATABASE = f"postgresql://nobody@{NOBODY}/none"
SESSION = UUID("00000000-0000-4000-8000-0000000000e1")


@pytest.fixture
async def without_bus(database_url: str) -> AsyncIterator[Asking]:
    """A gateway that accepts on the bus first, and there is none."""
    async with running_gateway(database_url, accept="bus", publish_timeout_seconds=0.5) as asking:
        yield asking


def a_token(organization: UUID | None = None) -> str:
    claims = SessionClaims(organization or uuid4(), uuid4(), SESSION, NoCaller())
    tokens = SessionTokens([TOKEN_SECRET], lifetime=timedelta(minutes=5))
    return tokens.mint(claims, now=datetime.now(UTC))[0]


async def test_a_save_is_accepted_through_the_store_while_the_bus_is_away(without_bus: Asking) -> None:
    session = await without_bus.session(await without_bus.config())

    answer = await without_bus.save(session, {"content": "kept all the same"})

    assert answer.status_code == 202
    (run,) = await without_bus.rows("SELECT * FROM lorebus.workflow_runs")
    (row,) = await without_bus.rows("SELECT * FROM lorebus.outbox")
    assert str(run["id"]) == str(row["event_id"]) == answer.json()["workflow_id"]
    assert (run["state_name"], run["pending_input"]) == ("initiated", row["payload"])


async def test_a_load_is_answered_and_recorded_while_the_bus_is_away(without_bus: Asking) -> None:
    config = await without_bus.config()
    await without_bus.remember(config, "still there")
    session = await without_bus.session(config)

    answer = await without_bus.load(session)

    assert answer.json()["memory"] == "still there"

    async def is_recorded() -> bool:
        return bool(await without_bus.rows("SELECT id FROM lorebus.outbox WHERE topic = 'recall.recorded'"))

    await without_bus.until(is_recorded)


async def test_the_gateway_is_ready_while_only_the_bus_is_away(without_bus: Asking) -> None:
    async def is_ready() -> bool:
        return (await without_bus.client.get("/health/ready")).status_code == 200

    await without_bus.until(is_ready)


@pytest.mark.parametrize("accept", ["bus", "store"])
async def test_with_both_away_nothing_is_accepted_and_when_to_try_again_is_told(accept: str) -> None:
    async with (
        serving(AWAY_DATABASE, accept=accept, publish_timeout_seconds=0.5) as url,
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=30.0) as client,
    ):
        agent = {"authorization": f"Agent {a_token()}"}
        path = f"/api/agents/sessions/{SESSION}"
        save = await client.post(f"{path}/memory-save", json={"content": "x"}, headers=agent)
        load = await client.post(f"{path}/memory-load", json={}, headers=agent)
        status = await client.get(f"/api/workflows/{uuid4()}", headers=agent)
        key = await client.get("/api/app/organization", headers={"authorization": "Bearer lrb_x"})
        ready = await client.get("/health/ready")
        live = await client.get("/health/live")

    for answer in (save, load, status, key):
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "2"
        assert answer.json()["type"] == "urn:lorebus:problem:unavailable"
        assert "Error" not in answer.text
    assert (ready.status_code, live.status_code) == (503, 200)


async def test_a_save_is_not_half_accepted_when_its_outbox_row_cannot_be_written(gateway: Asking) -> None:
    session = await gateway.session(await gateway.config())
    async with gateway.database.begin() as connection:
        await connection.exec_driver_sql("ALTER TABLE lorebus.outbox RENAME TO outbox_elsewhere")

    answer = await gateway.save(session, {"content": "x"})

    async with gateway.database.begin() as connection:
        await connection.exec_driver_sql("ALTER TABLE lorebus.outbox_elsewhere RENAME TO outbox")
    assert answer.status_code == 500
    assert not await gateway.rows("SELECT id FROM lorebus.workflow_runs")
    assert not await gateway.rows("SELECT id FROM lorebus.outbox")


async def test_the_token_alone_is_enough_to_have_a_save_accepted(gateway: Asking) -> None:
    token = a_token(gateway.organization_uuid)

    path = f"/api/agents/sessions/{SESSION}/memory-save"
    answer = await gateway.ask("POST", path, token=token, json={"content": "x"})

    assert answer.status_code == 202
    (row,) = await gateway.rows("SELECT payload FROM lorebus.outbox")
    assert json.loads(row["payload"])["session_uuid"] == str(SESSION)
