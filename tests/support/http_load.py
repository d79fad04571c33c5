"""Load over HTTP: sessions that save and load, one request after the other each, with a ledger of the answers."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Final
from uuid import UUID, uuid4

import httpx

from lorebus_contracts.events import CallerBody, EntryBody, Origin, SaveRequested
from lorebus_domain.visibility import CallerKind
from lorebus_kit.backoff import pause
from lorebus_kit.keys import create_key
from tests.support.databases import ArrangedDatabase
from tests.support.load import SHARED_TEXTS, Ledger, Tenant
from tests.support.outputs import CANARY

REQUEST_SECONDS: Final = 30.0
LOADS_AMONG: Final = 4
"""One request of so many is a load."""


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session whose runner holds its token."""

    uuid: UUID
    agent_config_uuid: UUID
    organization_uuid: UUID
    caller: CallerBody
    token: str


async def new_key(database_url: str, tenant: Tenant) -> str:
    """An API key of the tenant."""
    database = ArrangedDatabase(database_url, pool_size=1)
    try:
        return await create_key(database, tenant.organization_uuid, name="faults")
    finally:
        await database.dispose()


async def open_sessions(gateway: str, key: str, tenant: Tenant, *, count: int) -> list[OpenSession]:
    """Register sessions of nobody and of two actors, spread over the tenant's agent configs."""
    callers = (
        CallerBody(kind=CallerKind.NONE),
        CallerBody(kind=CallerKind.ACTOR, ref="ann"),
        CallerBody(kind=CallerKind.ACTOR, ref="bob"),
    )
    async with httpx.AsyncClient(base_url=gateway, trust_env=False, timeout=REQUEST_SECONDS) as client:
        return [
            await _open(
                client, key, tenant, tenant.configs[n % len(tenant.configs)], callers[n % len(callers)]
            )
            for n in range(count)
        ]


async def _open(
    client: httpx.AsyncClient, key: str, tenant: Tenant, config: UUID, caller: CallerBody
) -> OpenSession:
    answer = await client.post(
        "/api/app/agents/sessions",
        headers={"authorization": f"Bearer {key}"},
        json={
            "agent_config_uuid": str(config),
            "caller": caller.model_dump(mode="json", exclude_none=True),
            "task": f"Book a table {CANARY}",
        },
    )
    answer.raise_for_status()
    told = answer.json()
    return OpenSession(
        UUID(told["session_uuid"]), config, tenant.organization_uuid, caller, str(told["token"])
    )


@dataclass(slots=True)
class HttpLedger(Ledger):
    """Besides: what loads were answered, and every answer that was no success."""

    recalls: set[UUID] = field(default_factory=set)
    refusals: list[httpx.Response] = field(default_factory=list)
    sent_at: dict[UUID, float] = field(default_factory=dict)
    """When each refused save was sent, by the clock of `time.monotonic`."""

    failed_loads: list[str] = field(default_factory=list)

    def accept(self, event: SaveRequested, *, run_id: UUID) -> None:
        """A save was answered 202, perhaps after it was refused or not answered before."""
        self.accepted[run_id] = event.model_copy(update={"event_id": run_id})
        self.unsure.pop(event.event_id, None)
        self.refused.pop(event.event_id, None)
        self.sent_at.pop(event.event_id, None)

    def refuse(self, event: SaveRequested, answer: httpx.Response, *, sent_at: float) -> None:
        """A save was answered otherwise."""
        self.refusals.append(answer)
        self.refused[event.event_id] = event
        self.sent_at[event.event_id] = sent_at

    def doubt_those_sent_before(self, moment: float) -> None:
        """Of a save that was refused because a store went away in the middle of it, nobody knows."""
        for event_id in [one for one, sent_at in self.sent_at.items() if sent_at < moment]:
            self.unsure[event_id] = self.refused.pop(event_id)
            del self.sent_at[event_id]


class HttpUsers:
    """The runners of these sessions; when a gateway does not answer, the next request goes to another.

    With `keys` each save has an Idempotency-Key, and one that was not accepted is sent again with it.
    """

    def __init__(
        self,
        gateways: Sequence[str],
        sessions: Sequence[OpenSession],
        ledger: HttpLedger,
        rng: random.Random,
        *,
        per_second: float = 60.0,
        loads: bool = True,
        keys: bool = False,
    ) -> None:
        self._loads = loads
        self._keys = keys
        self._gateways = gateways
        self._sessions = sessions
        self._ledger = ledger
        self._rng = rng
        self._pause_seconds = len(sessions) / per_second

    async def run(self, stop: asyncio.Event) -> None:
        """Let every session go on until `stop` is set; requests under way are waited for."""
        async with httpx.AsyncClient(trust_env=False, timeout=REQUEST_SECONDS) as client:
            await asyncio.gather(
                *(self._run_one(client, n, session, stop) for n, session in enumerate(self._sessions))
            )

    async def _run_one(
        self, client: httpx.AsyncClient, number: int, session: OpenSession, stop: asyncio.Event
    ) -> None:
        requests = 0
        while not stop.is_set():
            requests += 1
            turn = number + requests
            if self._loads and self._rng.randrange(LOADS_AMONG) == 0:
                await self._load(client, self._gateways[turn % len(self._gateways)], session)
            else:
                own_text = f"Lesson {number}.{requests} {CANARY} that nobody else learnt"
                await self._save(client, turn, session, own_text, stop)
            await pause(self._pause_seconds, stop)

    async def _save(
        self, client: httpx.AsyncClient, turn: int, session: OpenSession, own_text: str, stop: asyncio.Event
    ) -> None:
        """Ask once; with keys, again and again until it is accepted or time to stop."""
        shared = [self._shared() for _ in range(self._rng.randint(0, 2))]
        event = as_event(session, (EntryBody(text=own_text), *shared))
        while not await self._is_accepted(client, self._gateways[turn % len(self._gateways)], session, event):
            turn += 1
            if not self._keys or await pause(self._pause_seconds, stop):
                return

    async def _is_accepted(
        self, client: httpx.AsyncClient, gateway: str, session: OpenSession, event: SaveRequested
    ) -> bool:
        ledger, sent_at = self._ledger, monotonic()
        headers = {"authorization": f"Agent {session.token}"}
        if self._keys:
            headers["idempotency-key"] = str(event.event_id)
        try:
            answer = await client.post(
                f"{gateway}/api/agents/sessions/{session.uuid}/memory-save",
                headers=headers,
                json={"entries": [entry.model_dump(mode="json") for entry in event.entries]},
            )
        except httpx.ConnectError:
            return False
        except httpx.TransportError:
            ledger.unsure[event.event_id] = event
            return False
        if answer.status_code != httpx.codes.ACCEPTED:
            ledger.refuse(event, answer, sent_at=sent_at)
            return False
        ledger.accept(event, run_id=UUID(answer.json()["workflow_id"]))
        return True

    async def _load(self, client: httpx.AsyncClient, gateway: str, session: OpenSession) -> None:
        try:
            answer = await client.post(
                f"{gateway}/api/agents/sessions/{session.uuid}/memory-load",
                headers={"authorization": f"Agent {session.token}"},
                json={},
            )
        except httpx.ConnectError:
            return
        except httpx.TransportError as error:
            self._ledger.failed_loads.append(type(error).__name__)
            return
        if answer.is_success:
            self._ledger.recalls.add(UUID(answer.json()["recall_id"]))
        else:
            self._ledger.failed_loads.append(str(answer.status_code))

    def _shared(self) -> EntryBody:
        number, importance = self._rng.randrange(SHARED_TEXTS), self._rng.choice((0.05, 0.5, 0.9))
        return EntryBody(text=f"Lesson {number} {CANARY} that many learnt", importance=importance)


def as_event(session: OpenSession, entries: tuple[EntryBody, ...]) -> SaveRequested:
    """What the gateway should make of the request; its id is known when the answer comes."""
    return SaveRequested(
        event_id=uuid4(),
        occurred_at=datetime.now(UTC),
        organization_uuid=session.organization_uuid,
        agent_config_uuid=session.agent_config_uuid,
        session_uuid=session.uuid,
        caller=session.caller,
        principal_ref=session.caller.principal_ref(),
        entries=entries,
        origin=Origin.RUNNER,
    )
