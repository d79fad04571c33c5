"""The path `/mcp` as HTTP: what gets to the tools at all, from where, and at which gateway."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from tests.support.gateways import Asking, serving
from tests.support.mcp_clients import ask, content_of, over_http

JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
NEWEST = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}


async def post(
    gateway: Asking, content: bytes | None = None, *, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    body: dict[str, Any] = {"json": LIST} if content is None else {"content": content}
    return await gateway.client.post("/mcp", headers={**JSON, **(headers or {})}, **body)


async def test_what_is_not_a_post_is_answered_with_the_method_that_is(gateway: Asking) -> None:
    for method in ("GET", "DELETE", "PUT"):
        answer = await gateway.client.request(method, "/mcp", headers=JSON)

        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert answer.json()["type"] == "urn:lorebus:problem:method-not-allowed"


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b'{"jsonrpc": "2.0"' + b" " * 1_048_576 + b"}", {}, 413),
        (b"{}", {"content-type": "text/plain"}, 415),
        (b"", {}, 422),
        (b"{not json", {}, 422),
        (b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "tools/list"}', {}, 422),
        (b"[" * 100_000, {}, 422),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]', {}, 422),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 5, "params": {"secret": "lrb_x"}}', {}, 422),
        (b'{"jsonrpc": "2.0", "id": {"secret": "lrb_x"}, "method": "tools/list"}', {}, 422),
    ],
)
async def test_a_body_gets_the_verdict_of_every_other_body(
    gateway: Asking, content: bytes, headers: dict[str, str], status: int
) -> None:
    answer = await post(gateway, content, headers=headers)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert "lrb_x" not in answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost"}, 200),
        ({"host": "[::1]:8080", "origin": "http://localhost:6274"}, 200),
        ({"host": "lorebus.attacker.example"}, 421),
        ({"host": "127.0.0.1.attacker.example:80"}, 421),
        ({"origin": "https://attacker.example"}, 403),
        ({"origin": "null"}, 403),
    ],
)
@pytest.mark.parametrize("era", [{}, NEWEST])
async def test_on_loopback_only_this_machine_is_let_in(
    gateway: Asking, headers: dict[str, str], status: int, era: dict[str, str]
) -> None:
    answer = await gateway.client.post(
        "/mcp", headers=JSON | headers | era, json=LIST | ({"params": {"_meta": META}} if era else {})
    )

    assert answer.status_code == status, answer.text


async def test_a_gateway_that_others_reach_leaves_the_names_to_its_proxy(database_url: str) -> None:
    async with (
        serving(database_url, http_host="0.0.0.0") as url,  # noqa: S104 - To see what it lets in.
        httpx.AsyncClient(trust_env=False) as client,
    ):
        answer = await client.post(f"{url}/mcp", headers=JSON | {"host": "lorebus.example"}, json=LIST)

    assert answer.status_code == 200


async def test_any_gateway_answers_a_client_that_began_at_another(gateway: Asking, database_url: str) -> None:
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "whoami"}}
    era = {"mcp-protocol-version": "2025-06-18", "authorization": f"Bearer {gateway.api_key}"}

    begun = await gateway.client.post("/mcp", headers=JSON, json=initialize)
    async with serving(database_url) as other, httpx.AsyncClient(trust_env=False) as client:
        answered = await client.post(f"{other}/mcp", headers=JSON | era, json=call)

    assert begun.status_code == 200
    assert "mcp-session-id" not in begun.headers
    assert str(gateway.organization_uuid) in answered.text


async def test_a_gateway_that_stops_answers_those_who_watch(gateway: Asking, database_url: str) -> None:
    config = await gateway.config()
    run = (await gateway.start("agents.memory-prune", agent_config_uuid=str(config))).json()
    begun = asyncio.Event()
    told: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))
        begun.set()

    async with contextlib.AsyncExitStack() as clients:
        async with serving(database_url, stop_seconds=25.0) as url:
            client = await clients.enter_async_context(over_http(url, key=gateway.api_key))
            # The client holds an answer to the tool's schema, for which it would ask a gateway that is gone.
            await client.list_tools()
            arguments = {"workflow_id": run["workflow_id"], "timeout_seconds": 30}
            watching = asyncio.create_task(
                client.call_tool("watch_workflow", arguments, progress_callback=on_progress)
            )
            await begun.wait()
        result = await watching

    assert not result.is_error
    assert content_of(result)["state_name"] == "initiated"
    assert {(total, message) for _, total, message in told} == {(30.0, "initiated")}


async def test_calls_of_tools_are_counted_by_tool_and_status(gateway: Asking) -> None:
    async with over_http(gateway.url, key=gateway.api_key) as client:
        before = await counted(gateway, 'lorebus_mcp_calls_total{status="200",tool="whoami"}')
        await ask(client, "whoami")
        after = await counted(gateway, 'lorebus_mcp_calls_total{status="200",tool="whoami"}')

    assert after == before + 1


async def counted(gateway: Asking, sample: str) -> float:
    lines = (await gateway.client.get("/metrics")).text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(sample))


def test_a_gateway_does_not_load_the_sdk_before_a_client_comes() -> None:
    program = "import sys, lorebus_gateway.app; sys.exit('mcp' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
