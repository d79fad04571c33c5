"""What one gateway changes, another one hears of at once, however long it would have remembered what was before."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.support.gateways import Asking, Registered, running_gateway, serving

LONG: dict[str, object] = {"key_cache_seconds": 3_600.0}


@pytest.fixture
async def gateway(database_url: str) -> AsyncIterator[Asking]:
    async with running_gateway(database_url, **LONG) as asking:
        yield asking


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Another gateway on the same database."""
    async with (
        serving(database_url, **LONG) as url,
        httpx.AsyncClient(base_url=url, trust_env=False) as client,
    ):
        yield client


async def loaded(client: httpx.AsyncClient, session: Registered) -> dict[str, object]:
    path = f"/api/agents/sessions/{session.uuid}/memory-load"
    answer = await client.post(path, json={}, headers={"authorization": f"Agent {session.token}"})
    assert answer.status_code == 200
    told: dict[str, object] = answer.json()
    return told


async def assert_both_tell(
    gateway: Asking, other: httpx.AsyncClient, session: Registered, fact: str, value: str
) -> None:
    """At once where the change was made, and at the other one as soon as it has heard."""
    assert (await loaded(gateway.client, session))[fact] == value

    async def is_heard() -> bool:
        return (await loaded(other, session))[fact] == value

    await gateway.until(is_heard)


async def test_a_setting_holds_from_its_answer_on_here_and_soon_elsewhere(
    gateway: Asking, other: httpx.AsyncClient
) -> None:
    config = await gateway.config(memory_strategy="last_k")
    await gateway.remember(config, "text")
    session = await gateway.session(config)
    assert (await loaded(gateway.client, session))["strategy"] == "last_k"
    assert (await loaded(other, session))["strategy"] == "last_k"

    await gateway.ask("PUT", f"/api/app/agents/configs/{config}", json={"memory_strategy": "importance"})

    await assert_both_tell(gateway, other, session, "strategy", "importance")


async def test_memory_switched_off_is_off_from_its_answer_on(
    gateway: Asking, other: httpx.AsyncClient
) -> None:
    config = await gateway.config()
    await gateway.remember(config, "text")
    session = await gateway.session(config)
    assert (await loaded(gateway.client, session))["memory"] == "text"
    assert (await loaded(other, session))["memory"] == "text"

    await gateway.ask("PUT", "/api/app/organization", json={"memory_enabled": False})

    await assert_both_tell(gateway, other, session, "skipped_reason", "memory_disabled")


async def test_a_revoked_key_opens_no_door_from_its_answer_on(
    gateway: Asking, other: httpx.AsyncClient
) -> None:
    made = (
        await gateway.ask(
            "POST", "/api/app/organization/keys", json={"name": "second", "scopes": ["admin", "read"]}
        )
    ).json()

    async def status(client: httpx.AsyncClient) -> int:
        headers = {"authorization": f"Bearer {made['key']}"}
        return (await client.get("/api/app/organization", headers=headers)).status_code

    assert (await status(gateway.client), await status(other)) == (200, 200)

    await gateway.ask("DELETE", f"/api/app/organization/keys/{made['key_id']}")

    assert await status(gateway.client) == 401

    async def is_heard() -> bool:
        return await status(other) == 401

    await gateway.until(is_heard)
