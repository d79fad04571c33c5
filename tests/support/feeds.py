"""A client of the live tail: reads server-sent events one by one."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from tests.support.gateways import Asking

PATH: Final = "/api/app/agents/memory/feed"
SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Told:
    """One event, or (named `heartbeat`) a comment with the id it moves on to."""

    name: str
    id: str
    data: Mapping[str, Any]


class FeedClient:
    """One open feed."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._blocks = _blocks(answer)

    async def next(self, *, heartbeats: bool = False) -> Told:
        """The next event; heartbeats only where they are asked for.

        Raises:
            TimeoutError: there was none in time.
            StopAsyncIteration: the feed ended.
        """
        async with asyncio.timeout(SECONDS):
            while True:
                told = _told(await anext(self._blocks))
                if heartbeats or told.name != "heartbeat":
                    return told

    async def take(self, count: int) -> list[Told]:
        """The next events."""
        return [await self.next() for _ in range(count)]

    async def rest(self) -> list[Told]:
        """All that is told until the feed ends, heartbeats too."""
        told = []
        while True:
            try:
                told.append(await self.next(heartbeats=True))
            except StopAsyncIteration:
                return told

    async def ready(self) -> Told:
        """The event that says that from here on all is live; there is nothing before it."""
        told = await self.next()
        assert told.name == "ready", told
        return told


@contextlib.asynccontextmanager
async def following(
    gateway: Asking, *, last_event_id: str | None = None, key: str | None = None, **query: object
) -> AsyncIterator[FeedClient]:
    """A feed as the gateway's organization (or another one's key) opens it."""
    headers = {"authorization": f"Bearer {key or gateway.api_key}"}
    if last_event_id is not None:
        headers["last-event-id"] = last_event_id
    params = {name: str(value) for name, value in query.items()}
    async with gateway.client.stream("GET", PATH, headers=headers, params=params) as answer:
        assert answer.status_code == 200, await answer.aread()
        yield FeedClient(answer)


async def _blocks(answer: httpx.Response) -> AsyncIterator[list[str]]:
    block: list[str] = []
    async for line in answer.aiter_lines():
        if line:
            block.append(line)
        else:
            yield block
            block = []


def _told(block: list[str]) -> Told:
    fields = dict(line.split(": ", 1) for line in block if not line.startswith(":"))
    name = fields.get("event", "heartbeat")
    return Told(name, fields.get("id", ""), json.loads(fields.get("data", "{}")))
