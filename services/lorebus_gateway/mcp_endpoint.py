"""The path `/mcp`: MCP clients of every gateway, for whom the SDK is loaded when the first one comes.

The rule that must not break: a gateway that no MCP client asks pays nothing for the SDK, neither memory nor time, and
while it is loaded the other routes go on being answered.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final, Literal, Protocol

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from lorebus_contracts import wire
from lorebus_gateway.answers import send_answer
from lorebus_gateway.bodies import read_body
from lorebus_gateway.problems import KNOWN_ERRORS, method_not_allowed, problem_answer
from lorebus_gateway.services import Services
from lorebus_store.errors import TransientError

LOAD_SECONDS: Final = 20.0
"""How long the first clients wait for the SDK; it takes about two seconds."""


class _Message(BaseModel):
    """What is looked at of a message: as much as keeps the SDK from quoting one that is none."""

    model_config = ConfigDict(extra="ignore")

    jsonrpc: Literal["2.0"]
    method: StrictStr
    id: StrictInt | StrictStr | None = None
    params: dict[str, Any] | None = None


class Transport(Protocol):
    """What is needed of the SDK (`StreamableHTTPSessionManager`)."""

    def run(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Be there for requests until this is left; once only."""

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""


class McpEndpoint:
    """The ASGI application of the path; `run` has to be kept running beside it."""

    def __init__(self, services: Services, *, http_host: str) -> None:
        self._services = services
        self._http_host = http_host
        self._asked = asyncio.Event()
        self._there = asyncio.Event()
        self._transport: Transport | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Wait for the first client, load the SDK, and serve until `stop` is set."""
        await _first_of(self._asked, stop)
        if stop.is_set():
            return
        transport = (await asyncio.to_thread(_load))(self._services, http_host=self._http_host)
        try:
            async with transport.run():
                self._transport = transport
                self._there.set()
                await stop.wait()
        finally:
            self._transport = None
            self._there.clear()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; it is a POST, since without sessions there is nothing to get or to delete."""
        if scope["method"] != "POST":
            await send_answer(method_not_allowed("POST"), send)
            return
        try:
            body = await read_body(scope, receive, seconds=self._services.body_seconds)
            wire.parse(_Message, body)
            transport = await self._loaded()
        except KNOWN_ERRORS as error:
            await send_answer(problem_answer(error), send)
        except ClientDisconnect:
            return
        else:
            await transport.handle_request(scope, _replayed(body, receive), send)

    async def _loaded(self) -> Transport:
        self._asked.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOAD_SECONDS):
                await self._there.wait()
        if self._transport is None:
            raise TransientError("the MCP SDK is not loaded yet")
        return self._transport


def _load() -> Callable[..., Transport]:
    """Import the SDK; in a thread, because it takes seconds."""
    from lorebus_gateway.mcp_server import session_manager  # noqa: PLC0415 - Only for MCP clients.

    return session_manager


async def _first_of(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body that was read already, and then what else comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
