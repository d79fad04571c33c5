"""Who uses Lorebus in a soak, over HTTP, with a ledger for the offline checker and the time of every answer.

Three organizations, because the checker asks different things of each: one saves and loads, one tells how sessions
ended and were rated, one saves beyond its cap and prunes.
"""

import asyncio
import json
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, cast
from uuid import UUID, uuid4

from lorebus_contracts.events import EntryBody, PruneRequested, SessionEnded
from lorebus_kit.backoff import pause
from tests.bench.http_wire import Address, Answer, Connection, post
from tests.support.http_load import HttpLedger, OpenSession, as_event
from tests.support.load import SHARED_TEXTS, Sessions, Tenant

LOADS_AMONG: Final = 4
"""One request of so many of a saver is a load."""
STRATEGIES: Final = ("last_k", "importance", "full", "pack")
Told = dict[str, Any]
_SUCCESS: Final = range(200, 300)
_SESSIONS: Final = "/api/app/agents/sessions"


@dataclass(slots=True)
class Answered:
    """Every answer: seconds since the beginning, what was asked, milliseconds; and what was no success."""

    began: float = field(default_factory=time.monotonic)
    answers: list[tuple[float, str, float]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    async def ask(self, connection: Connection, kind: str, request: bytes) -> Answer:
        """Ask, and note how it went."""
        asked = time.monotonic()
        answer = await connection.ask(request)
        now = time.monotonic()
        self.answers.append((now - self.began, kind, 1000 * (now - asked)))
        if answer.status not in _SUCCESS:
            self.refused.append(f"{kind} was answered {answer.status}: {answer.body.decode()[:200]}")
        return answer


@dataclass(frozen=True, slots=True)
class Desk:
    """What every user works with: a gateway, where answers are noted, where what was accepted is kept."""

    gateway: Address
    answered: Answered
    ledger: HttpLedger
    pause_seconds: float


class User:
    """One who asks again and again on a connection of its own, with a pause between."""

    def __init__(self, desk: Desk, rng: random.Random) -> None:
        self._desk = desk
        self._rng = rng
        self._connection: Connection | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Go on until it is time to stop; what is under way is waited for."""
        self._connection = await Connection.open(self._desk.gateway)
        while not stop.is_set():
            await self.turn()
            await pause(self._desk.pause_seconds, stop)
        self._connection.close()

    async def turn(self) -> None:
        """Ask once, or a few times for one purpose."""
        raise NotImplementedError

    async def ask(self, kind: str, path: str, body: dict[str, object], authorization: str) -> Told | None:
        """The answer's body; None when it was no success."""
        assert self._connection is not None
        request = post(path, body, authorization=authorization)
        answer = await self._desk.answered.ask(self._connection, kind, request)
        return cast("Told", json.loads(answer.body)) if answer.status in _SUCCESS else None


class Saver(User):
    """The runner of one session, who saves texts of its own and texts that all share, and may load in between."""

    def __init__(self, desk: Desk, rng: random.Random, session: OpenSession, *, loads: bool) -> None:
        super().__init__(desk, rng)
        self._session = session
        self._loads = loads
        self._own = uuid4().hex[:8]
        self._turns = 0

    async def turn(self) -> None:
        """Save, or load."""
        self._turns += 1
        if self._loads and self._rng.randrange(LOADS_AMONG) == 0:
            await self._load()
        else:
            await self._save()

    async def _save(self) -> None:
        shared = [self._shared() for _ in range(self._rng.randint(0, 2))]
        own = EntryBody(text=f"Lesson {self._own}.{self._turns} that nobody else learnt")
        event = as_event(self._session, (own, *shared))
        body: dict[str, object] = {"entries": [entry.model_dump(mode="json") for entry in event.entries]}
        told = await self._of_session("save", "memory-save", body)
        if told is not None:
            self._desk.ledger.accept(event, run_id=UUID(told["workflow_id"]))

    async def _load(self) -> None:
        strategy = self._rng.choice(STRATEGIES)
        body: dict[str, object] = {"strategy": strategy, "cue": "a lesson that many learnt"}
        told = await self._of_session(f"load {strategy}", "memory-load", body)
        if told is not None:
            self._desk.ledger.recalls.add(UUID(told["recall_id"]))

    async def _of_session(self, kind: str, what: str, body: dict[str, object]) -> Told | None:
        path = f"/api/agents/sessions/{self._session.uuid}/{what}"
        return await self.ask(kind, path, body, f"Agent {self._session.token}")

    def _shared(self) -> EntryBody:
        number = self._rng.randrange(SHARED_TEXTS)
        # Some of them are below what is kept.
        return EntryBody(
            text=f"Lesson {number} that many learnt", importance=self._rng.choice((0.05, 0.5, 0.9))
        )


class Runtime(User):
    """A session runtime: sessions begin, end and are rated."""

    def __init__(self, desk: Desk, rng: random.Random, tenant: Tenant, key: str) -> None:
        super().__init__(desk, rng)
        self._made = Sessions(tenant, rng)
        self._authorization = f"Bearer {key}"
        self.ratings: dict[UUID, float] = {}

    async def turn(self) -> None:
        """One session from its beginning to its rating."""
        event = self._made()
        begun: dict[str, object] = {
            "agent_config_uuid": str(event.agent_config_uuid),
            "session_uuid": str(event.session_uuid),
            "caller": {"kind": "none"},
            "task": event.task,
        }
        if await self.ask("register", _SESSIONS, begun, self._authorization) is None:
            return
        path = f"{_SESSIONS}/{event.session_uuid}"
        if await self.ask("end", f"{path}/end", _end_body(event), self._authorization) is not None:
            self._desk.ledger.accepted[event.event_id] = event
        score = self._rng.choice((0.2, 0.9))
        if (
            await self.ask("rate", f"{path}/rating", {"quality_score": score}, self._authorization)
            is not None
        ):
            self.ratings[event.session_uuid] = score


class Pruner(User):
    """An operator who cuts agent configs down to their caps."""

    def __init__(self, desk: Desk, rng: random.Random, tenant: Tenant, key: str) -> None:
        super().__init__(desk, rng)
        self._tenant = tenant
        self._authorization = f"Bearer {key}"

    async def turn(self) -> None:
        """Prune one agent config."""
        config = self._rng.choice(self._tenant.configs)
        body: dict[str, object] = {"agent_config_uuid": str(config)}
        told = await self.ask("prune", "/api/app/agents/memory/prune", body, self._authorization)
        if told is None:
            return
        event = PruneRequested(
            event_id=UUID(told["workflow_id"]),
            occurred_at=datetime.now(UTC),
            organization_uuid=self._tenant.organization_uuid,
            agent_config_uuid=config,
        )
        self._desk.ledger.accepted[event.event_id] = event


def _end_body(event: SessionEnded) -> dict[str, object]:
    fields = {"event_id", "outcome", "step_count", "trace", "task"}
    return event.model_dump(mode="json", include=fields, exclude_none=True)
