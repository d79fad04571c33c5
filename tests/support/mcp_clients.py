"""MCP clients of the official SDK, on every way to the tools: HTTP in both eras of the protocol, and stdio."""

import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent


class Connect(Protocol):
    """Opens a client of a gateway, with an API key, a session token, or neither."""

    def __call__(
        self, url: str, *, key: str | None = None, token: str | None = None
    ) -> AbstractAsyncContextManager[Client]:
        """A client that is connected until it is left."""


def over_http(
    url: str, *, key: str | None = None, token: str | None = None
) -> AbstractAsyncContextManager[Client]:
    """By streamable HTTP as the newest protocol has it: every request stands alone."""
    return _http_client(url, key, token, mode="auto")


def over_http_of_2025(
    url: str, *, key: str | None = None, token: str | None = None
) -> AbstractAsyncContextManager[Client]:
    """By streamable HTTP with the handshake that most clients still make."""
    return _http_client(url, key, token, mode="legacy")


@asynccontextmanager
async def over_stdio(
    url: str, *, key: str | None = None, token: str | None = None, **environment: str
) -> AsyncIterator[Client]:
    """By a process `lorebus mcp`."""
    told = {"LOREBUS_URL": url, "LOREBUS_API_KEY": key, "LOREBUS_TOKEN": token}
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "lorebus_ops", "mcp"],
        env={name: value for name, value in told.items() if value} | environment,
    )
    async with Client(server) as client:
        yield client


@asynccontextmanager
async def _http_client(url: str, key: str | None, token: str | None, *, mode: str) -> AsyncIterator[Client]:
    shown = f"Agent {token}" if token else f"Bearer {key}" if key else None
    headers = {} if shown is None else {"authorization": shown}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=40.0) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


async def ask(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    """What a tool answers; the test fails when that is a problem."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return content_of(result)


async def refusal(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    """The problem document a tool answers with; the test fails when that is none."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.content
    return content_of(result)


def content_of(result: CallToolResult) -> dict[str, Any]:
    """The result's JSON object."""
    content: dict[str, Any] = result.structured_content
    return content


def text_of(result: CallToolResult) -> str:
    """The result's only text."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text
