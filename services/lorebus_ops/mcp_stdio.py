"""`lorebus mcp`: MCP over standard input and output, for hosts that start their servers as programs.

The rule that must not break: standard output carries MCP and nothing else; every call is carried out by the gateway,
with the one credential this program was given, and comes back as the gateway answered it.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, CallToolRequest, CallToolRequestParams, CallToolResult
from mcp_types.version import LATEST_MODERN_VERSION

from lorebus_contracts import problems
from lorebus_contracts.problems import Problem
from lorebus_kit.mcp_protocol import Context, mcp_server, tool_result
from lorebus_ops.errors import EXIT_FAILED, StackError
from lorebus_ops.home import LocalInfo
from lorebus_ops.target import Target, find_target, is_here

CONNECT_SECONDS: Final = 10.0
SILENCE_SECONDS: Final = 60.0
"""Twice as long as a tool may take; while it waits for a run it tells progress."""


def serve(local: LocalInfo | None) -> int:
    """Answer the host until it closes standard input; the exit code."""
    try:
        target = find_target(os.environ, local)
    except StackError as error:
        sys.stderr.write(f"lorebus: {error}\n")
        return EXIT_FAILED
    # A thread waits in a read of standard input, which only the end of the process interrupts.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(_serve(target))
    return 0


async def _serve(target: Target) -> None:
    async with _http_client(target) as http, stdio_server() as (requests, answers):
        server = mcp_server(_Forwarding(target, http))
        await server.run(requests, answers, server.create_initialization_options())


def _http_client(target: Target) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        headers={"authorization": target.authorization},
        timeout=httpx2.Timeout(CONNECT_SECONDS, read=SILENCE_SECONDS),
        # A proxy of the environment leads to no gateway of this machine.
        trust_env=not is_here(target.url),
        event_hooks={"response": [_stop_at_a_problem]},
    )


class _RefusedError(Exception):
    """The gateway refused the request before it came to a tool; `document` is its problem document."""

    def __init__(self, document: bytes) -> None:
        super().__init__("refused")
        self.document = document


async def _stop_at_a_problem(response: httpx2.Response) -> None:
    """The SDK would make something of its own of it."""
    if response.headers.get("content-type") == problems.MEDIA_TYPE:
        raise _RefusedError(await response.aread())


class _Forwarding:
    """Has each call carried out at the gateway. Each has a client of its own, so that none fails for another's sake."""

    def __init__(self, target: Target, http: httpx2.AsyncClient) -> None:
        self._url = f"{target.url}/mcp"
        self._http = http

    async def __call__(self, context: Context, name: str, arguments: Mapping[str, object]) -> CallToolResult:
        result = _unavailable()
        failed: MCPError | None = None
        try:
            async with self._gateway() as gateway:
                result = await _forward(gateway, context, name, arguments)
        except* httpx2.TransportError as group:
            _note(f"the gateway at {self._url} does not answer ({type(_first(group)).__name__})")
        except* _RefusedError as group:
            result = tool_result(_first(group).document, is_error=True)
        except* MCPError as group:
            failed = _first(group)
        if failed is not None and failed.code != CONNECTION_CLOSED:
            _note(f"{self._url} does not answer as a Lorebus gateway does: {failed}")
            raise failed
        return result

    @asynccontextmanager
    async def _gateway(self) -> AsyncIterator[Client]:
        """A client that asks at once, without a handshake: what the gateway speaks is known."""
        transport = streamable_http_client(self._url, http_client=self._http)
        async with Client(transport, mode=LATEST_MODERN_VERSION, cache=None) as client:
            yield client


async def _forward(
    gateway: Client, context: Context, name: str, arguments: Mapping[str, object]
) -> CallToolResult:
    request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=dict(arguments)))
    return await gateway.session.send_request(
        request, CallToolResult, progress_callback=context.session.report_progress
    )


def _unavailable() -> CallToolResult:
    kind = problems.UNAVAILABLE
    document = Problem(type=kind.type, title=kind.title, status=kind.status, detail=kind.detail)
    return tool_result(document.model_dump_json(exclude_defaults=True).encode(), is_error=True)


def _first(group: BaseExceptionGroup[Any]) -> Any:  # noqa: ANN401 - As the group has it.
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


def _note(text: str) -> None:
    sys.stderr.write(f"lorebus: {text}\n")
