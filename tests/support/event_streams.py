"""Reading server-sent events as a client does."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.gateways import Asking


@dataclass(slots=True)
class EventStream:
    """A stream that is open: its events one by one, and how many heartbeats came between them."""

    response: httpx.Response
    lines: AsyncIterator[str]
    heartbeats: int = 0
    names: list[str] = field(default_factory=list)

    async def next(self) -> dict[str, Any]:
        """The data of the next event.

        Raises:
            StopAsyncIteration: the server has ended the stream.
        """
        async for line in self.lines:
            name, _, value = line.partition(": ")
            if name == "event":
                self.names.append(value)
            elif name == "data":
                told: dict[str, Any] = json.loads(value)
                return told
            elif line.startswith(":"):
                self.heartbeats += 1
        raise StopAsyncIteration

    async def rest(self) -> list[dict[str, Any]]:
        """The data of all events until the server ends the stream."""
        found = []
        while True:
            try:
                found.append(await self.next())
            except StopAsyncIteration:
                return found


@asynccontextmanager
async def event_stream(gateway: Asking, path: str, *, token: str | None = None) -> AsyncIterator[EventStream]:
    """Open a stream; leaving this is the client going away."""
    credentials = f"Agent {token}" if token else f"Bearer {gateway.api_key}"
    async with gateway.client.stream("GET", path, headers={"authorization": credentials}) as response:
        assert response.status_code == 200, (await response.aread()).decode()
        assert response.headers["content-type"] == "text/event-stream"
        yield EventStream(response, response.aiter_lines())
