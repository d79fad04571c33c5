"""The demo's session runtime: what the engineers of a real one would write against Lorebus.

It registers each session and recalls at its launch over HTTP, and tells over Kafka how it ended. Whatever is down for
a moment is tried again; every event keeps its event_id, so nothing is counted twice.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib import resources
from typing import Any, Final, Self
from uuid import UUID, uuid5

import httpx

from lorebus_contracts.events import Event, SessionEnded, SessionRated
from lorebus_contracts.http import AgentConfigBody
from lorebus_contracts.wire import parse
from lorebus_domain.recall import Strategy
from lorebus_kit.backoff import Backoff
from lorebus_kit.bus import BusProducer
from lorebus_kit.keys import ensure_local_key
from lorebus_ops.errors import StackError
from lorebus_ops.home import LocalInfo
from lorebus_store.errors import TransientError

PATIENCE_SECONDS: Final = 45.0
"""How long one request may be tried again: longer than a killed service takes to come back."""
RATED_EVERY: Final = 6
GOOD_SCORE: Final = 0.9
BAD_SCORE: Final = 0.2
_GONE: Final = {404}
_TRY_AGAIN: Final = {429, 500, 502, 503, 504}


@dataclass(frozen=True, slots=True)
class Launch:
    """A session as it was launched: its token, and the recall that it got, if any."""

    token: str
    recall: dict[str, Any]


def real_sessions() -> tuple[SessionEnded, ...]:
    """The 43 sessions that come with the demo, in the order in which they happened."""
    raw = (resources.files("lorebus_ops") / "data" / "sessions.jsonl").read_bytes()
    return tuple(parse(SessionEnded, line) for line in raw.splitlines() if line)


def rating_of(index: int, session: SessionEnded) -> SessionRated | None:
    """Every third session is rated, good and bad by turns; the same ones with the same event_id each time."""
    if index % (RATED_EVERY // 2):
        return None
    return SessionRated(
        event_id=uuid5(session.session_uuid, "demo-rating:v1"),
        occurred_at=session.occurred_at + timedelta(hours=1),
        organization_uuid=session.organization_uuid,
        agent_config_uuid=session.agent_config_uuid,
        session_uuid=session.session_uuid,
        quality_score=GOOD_SCORE if index % RATED_EVERY == 0 else BAD_SCORE,
    )


class DemoRuntime:
    """Talks to one local stack, for `async with`."""

    def __init__(self, info: LocalInfo) -> None:
        self._info = info
        self._http = httpx.AsyncClient(base_url=info.gateway_url, timeout=10.0, trust_env=False)
        self._bus = BusProducer(info.bootstrap_servers)
        self._keys: dict[UUID, str] = {}

    async def __aenter__(self) -> Self:
        """Connect to the broker."""
        await self._bus.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave nothing open."""
        await self._bus.stop()
        await self._http.aclose()

    async def prepare(self, sessions: Sequence[SessionEnded]) -> None:
        """Make the sessions' organizations known, a key for each, and their agent configs."""
        for organization_uuid in dict.fromkeys(session.organization_uuid for session in sessions):
            self._keys[organization_uuid] = await ensure_local_key(self._info.database_url, organization_uuid)
        settings = AgentConfigBody(memory_strategy=Strategy.PACK).model_dump(mode="json")
        for pair in dict.fromkeys(
            (session.organization_uuid, session.agent_config_uuid) for session in sessions
        ):
            await self.ask(pair[0], "PUT", f"/api/app/agents/configs/{pair[1]}", settings)

    async def launch(self, session: SessionEnded, session_uuid: UUID | None = None) -> Launch:
        """Register a session and recall what it should remember."""
        body = {
            "agent_config_uuid": str(session.agent_config_uuid),
            "session_uuid": str(session_uuid or session.session_uuid),
            "caller": session.caller.model_dump(mode="json"),
            "task": session.task,
            "load": True,
        }
        answer = await self.ask(session.organization_uuid, "POST", "/api/app/agents/sessions", body)
        return Launch(answer["token"], answer.get("recall") or {})

    async def load(self, session_uuid: UUID, token: str, strategy: Strategy | None = None) -> dict[str, Any]:
        """Recall once more for a session that runs, with all score parts."""
        body = {"explain": True} | ({} if strategy is None else {"strategy": strategy.value})
        path = f"/api/agents/sessions/{session_uuid}/memory-load"
        return await self._request("POST", path, f"Agent {token}", body)

    async def tell(self, event: Event) -> None:
        """Publish an event as a runtime does, until the broker has it.

        Raises:
            StackError: the broker did not take it for 45 s.
        """
        backoff = Backoff(most_seconds=2.0)
        give_up = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while True:
            try:
                await self._bus.publish(event.topic.name, event.key(), event.model_dump_json().encode())
            except TransientError as error:
                if asyncio.get_running_loop().time() > give_up:
                    raise StackError(f"an event was not taken by the broker: {error}") from error
                await asyncio.sleep(backoff.next_seconds())
            else:
                return

    async def ask(
        self, organization_uuid: UUID, method: str, path: str, body: object = None
    ) -> dict[str, Any]:
        """One request with the organization's key; an empty answer when there is no such object.

        Raises:
            StackError: refused, or not answered for 45 s.
        """
        return await self._request(method, path, f"Bearer {self._keys[organization_uuid]}", body)

    async def _request(self, method: str, path: str, authorization: str, body: object) -> dict[str, Any]:
        backoff = Backoff(most_seconds=2.0)
        give_up = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        content = None if body is None else json.dumps(body).encode()
        headers = {"authorization": authorization, "content-type": "application/json"}
        problem = ""
        while asyncio.get_running_loop().time() < give_up:
            try:
                answer = await self._http.request(method, path, content=content, headers=headers)
            except httpx.TransportError as error:
                problem = type(error).__name__
            else:
                if answer.is_success:
                    found: dict[str, Any] = answer.json()
                    return found
                if answer.status_code in _GONE:
                    return {}
                problem = f"{answer.status_code} {answer.text[:300]}"
                if answer.status_code not in _TRY_AGAIN:
                    break
            await asyncio.sleep(backoff.next_seconds())
        raise StackError(f"{method} {path} was not answered: {problem}")
