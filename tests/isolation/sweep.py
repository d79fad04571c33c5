"""What is looked at beside the operations: the live tails all the time, and everything there is at the end."""

import asyncio
import json
from collections.abc import Sequence
from typing import Final

from tests.isolation.http_client import Stream
from tests.isolation.world import SESSIONS, Organization, World
from tests.support.waiting import eventually

_FEED: Final = "/api/app/agents/memory/feed"
_OVERLAP: Final = 64
_SETTLE_SECONDS: Final = 20.0


class Feed:
    """The live tail of one organization, looked at as it comes."""

    def __init__(self, world: World, organization: Organization) -> None:
        self._world = world
        self._organization = organization
        self._end = b""
        self._stream: Stream | None = None

    async def open(self) -> None:
        """Begin to follow."""
        self._stream = await self._world.client.follow(
            _FEED, credentials=self._organization.credentials, on_chunk=self._look
        )

    async def close(self) -> None:
        """Go away."""
        if self._stream is not None:
            await self._stream.close()

    def _look(self, chunk: bytes) -> None:
        self._world.tally.tail_pieces += 1
        # What stands across two pieces is found, too.
        self._world.look("live tail", self._organization.asker(), self._end + chunk)
        self._end = chunk[-_OVERLAP:]


async def follow_all(world: World) -> list[Feed]:
    """The live tails of all organizations."""
    feeds = [Feed(world, organization) for organization in world.organizations]
    for feed in feeds:
        await feed.open()
    return feeds


async def leave(feeds: Sequence[Feed]) -> None:
    """Close them."""
    for feed in feeds:
        await feed.close()


async def look_at_everything(world: World) -> None:
    """Once what was accepted last is done: every agent config's file and list, and a full load of every session."""
    await asyncio.gather(*(_last_run_ends(world, organization) for organization in world.organizations))
    await asyncio.gather(*(_look_at(world, organization) for organization in world.organizations))


async def _last_run_ends(world: World, organization: Organization) -> None:
    own = [run for run in world.known["run"] if run.organization == organization.index]
    if not own:
        return
    try:
        await eventually(
            lambda: _has_ended(world, organization, own[-1].id), what="a run ends", seconds=_SETTLE_SECONDS
        )
    except TimeoutError:
        world.tally.unsettled += 1


async def _has_ended(world: World, organization: Organization, run_id: str) -> bool:
    answer = await world.ask(
        "run",
        organization.asker(),
        "GET",
        f"/api/workflows/{run_id}",
        credentials=organization.credentials,
    )
    # A run of the bus alone is not there before it is done, or not at all where an erasure had taken it.
    return answer.status == 404 or bool((answer.json() or {}).get("is_terminal", True))


async def _look_at(world: World, organization: Organization) -> None:
    memory = "/api/app/agents/memory"
    for config in world.configs:
        for operation, path in (
            ("list", f"{memory}?agent_config_uuid={config}&per_page=100"),
            ("export", f"{memory}/export?agent_config_uuid={config}"),
        ):
            await world.ask(
                operation, organization.asker(config), "GET", path, credentials=organization.credentials
            )
    for index in range(SESSIONS):
        session = world.session(organization, index)
        token = world.tokens.get((organization.index, session.uuid))
        if token is not None:
            await world.ask(
                "load",
                session.asker,
                "POST",
                f"/api/agents/sessions/{session.uuid}/memory-load",
                credentials=f"Agent {token}",
                body=json.dumps({"strategy": "full"}).encode(),
            )
