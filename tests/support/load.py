"""Load with a ledger: everything that was accepted is written down, with its texts, for the checker to ask for.

The rule that must not break: an event counts as accepted when the broker has confirmed it with all in-sync replicas,
or when the gateway has answered 202; where nobody knows, it is kept apart as unsure.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol, TypeVar
from uuid import UUID

from uuid6 import uuid7

from lorebus_contracts.events import (
    CallerBody,
    EntryBody,
    Event,
    Origin,
    PruneRequested,
    RecalledEntry,
    RecallRecorded,
    SaveRequested,
    SessionEnded,
    SessionRated,
    ToolCallBody,
)
from lorebus_domain.recall import Strategy
from lorebus_domain.saving import Entry, fold, plan_save
from lorebus_domain.visibility import CallerKind, MemoryScope
from lorebus_kit.backoff import pause
from lorebus_kit.bus import BusProducer, Record
from lorebus_store import memories, settings
from lorebus_store.database import Connection
from lorebus_store.memories import EntrySource, Upserted
from tests.support.databases import ArrangedDatabase
from tests.support.outputs import CANARY

SHARED_TEXTS: Final = 40
TOOLS: Final = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath")
PRINCIPALS: Final = (None, "ann", "Ann", "bob")
EventT = TypeVar("EventT", bound=Event)


@dataclass(frozen=True, slots=True)
class Tenant:
    """An organization with its agent configs; principals as saves name them."""

    organization_uuid: UUID
    configs: tuple[UUID, ...]
    principals: tuple[str | None, ...] = PRINCIPALS


def new_tenant(rng: random.Random, *, configs: int = 2) -> Tenant:
    """An organization that nobody knows yet."""
    return Tenant(new_uuid(rng), tuple(new_uuid(rng) for _ in range(configs)))


async def make_tenant(
    database_url: str, rng: random.Random, *, configs: int = 2, max_entries: int | None = None
) -> Tenant:
    """An organization with its agent configs, made known."""
    tenant = new_tenant(rng, configs=configs)
    await make_known(database_url, tenant, max_entries=max_entries)
    return tenant


async def make_known(database_url: str, tenant: Tenant, *, max_entries: int | None = None) -> None:
    """Give an organization and its agent configs settings."""
    database = ArrangedDatabase(database_url, pool_size=1)
    try:
        async with database.begin() as connection:
            await settings.put_organization(connection, tenant.organization_uuid)
            for config in tenant.configs:
                await settings.put_agent_config(
                    connection, tenant.organization_uuid, config, memory_max_entries=max_entries
                )
    finally:
        await database.dispose()


async def seed_entries(database_url: str, tenant: Tenant, *, entries: int) -> list[tuple[UUID, UUID]]:
    """Put this many entries into each config's shared pool; gives (agent config, memory id) of each."""
    database = ArrangedDatabase(database_url, pool_size=1)
    try:
        async with database.begin() as connection:
            return [
                (config, row.memory_id)
                for config in tenant.configs
                for row in await _seed(
                    connection, MemoryScope(tenant.organization_uuid, config, None), entries
                )
            ]
    finally:
        await database.dispose()


async def _seed(connection: Connection, scope: MemoryScope, entries: int) -> tuple[Upserted, ...]:
    plan = plan_save([Entry(f"Seeded lesson {number}", 0.5) for number in range(entries)])
    folded = fold([(scope, entry) for entry in plan.kept])
    rows = await memories.upsert_reinforcing(
        connection,
        folded,
        ids=[uuid7() for _ in folded],
        sources=[EntrySource(Origin.IMPORT)] * len(folded),
    )
    pair = (scope.organization_uuid, scope.agent_config_uuid)
    await memories.add_to_counters(connection, {pair: len(rows)})
    return rows


@dataclass(slots=True)
class Ledger:
    """What became of each event that was sent, by event_id."""

    accepted: dict[UUID, Event] = field(default_factory=dict)
    unsure: dict[UUID, Event] = field(default_factory=dict)
    refused: dict[UUID, Event] = field(default_factory=dict)

    def accepted_of(self, kind: type[EventT]) -> tuple[EventT, ...]:
        """The accepted events of one kind."""
        return tuple(event for event in self.accepted.values() if isinstance(event, kind))

    def unsure_of(self, kind: type[EventT]) -> tuple[EventT, ...]:
        """The events of one kind of which nobody knows."""
        return tuple(event for event in self.unsure.values() if isinstance(event, kind))


class Load(Protocol):
    """Something that sends events until it is told to stop."""

    async def run(self, stop: asyncio.Event) -> None:
        """Send, and keep the ledger."""


@asynccontextmanager
async def under(*loads: Load) -> AsyncIterator[None]:
    """While the block runs, so do these; afterwards everything they sent is in their ledgers."""
    stop = asyncio.Event()
    tasks = [asyncio.create_task(load.run(stop)) for load in loads]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)


class BusLoad:
    """Publishes what `make` gives, and again until it is confirmed, as a good producer does.

    `scatter` draws a random key, so that one scope's events meet on all partitions.
    """

    def __init__(
        self,
        bus: BusProducer,
        make: Callable[[], Event],
        ledger: Ledger,
        *,
        per_second: float = 100.0,
        chunk: int = 5,
        scatter: random.Random | None = None,
    ) -> None:
        self._bus = bus
        self.make = make
        self._ledger = ledger
        self._pause_seconds = chunk / per_second
        self._chunk = chunk
        self._scatter = scatter

    async def run(self, stop: asyncio.Event) -> None:
        """Publish until `stop` is set."""
        while not stop.is_set():
            await self.send([self.make() for _ in range(self._chunk)], stop)
            await pause(self._pause_seconds, stop)

    async def send(self, events: Sequence[Event], stop: asyncio.Event) -> None:
        """Publish these until each is confirmed; when `stop` is set first, the others are unsure."""
        waiting = list(events)
        while waiting:
            errors = await self._bus.publish_all([self._record(event) for event in waiting])
            for event, error in zip(waiting, errors, strict=True):
                (self._ledger.accepted if error is None else self._ledger.unsure)[event.event_id] = event
            waiting = [event for event, error in zip(waiting, errors, strict=True) if error is not None]
            for event in events:
                if event.event_id in self._ledger.accepted:
                    self._ledger.unsure.pop(event.event_id, None)
            if waiting and await pause(0.1, stop):
                return

    def _record(self, event: Event) -> Record:
        key = event.key() if self._scatter is None else self._scatter.randbytes(8)
        return Record(event.topic.name, key, event.model_dump_json().encode())


class AnyOf:
    """Makes whatever one of these makes."""

    def __init__(self, rng: random.Random, *makers: Callable[[], Event]) -> None:
        self._rng = rng
        self._makers = makers

    def __call__(self) -> Event:
        """The next one."""
        return self._rng.choice(self._makers)()


class Saves:
    """Makes saves: the first text of each is its own, the others come from a few that all share."""

    def __init__(self, tenant: Tenant, rng: random.Random, *, most_shared: int = 3) -> None:
        self._tenant = tenant
        self._rng = rng
        self._most_shared = most_shared
        self._made = 0

    def __call__(self) -> SaveRequested:
        """The next one."""
        rng = self._rng
        self._made += 1
        shared = rng.choices(range(SHARED_TEXTS), k=rng.randint(0, self._most_shared))
        own = EntryBody(
            text=f"Lesson {self._made} {CANARY} that nobody else learnt", importance=self._importance()
        )
        return SaveRequested(
            event_id=new_uuid(rng),
            occurred_at=datetime.now(UTC),
            organization_uuid=self._tenant.organization_uuid,
            agent_config_uuid=rng.choice(self._tenant.configs),
            session_uuid=new_uuid(rng),
            caller=CallerBody(kind=CallerKind.NONE),
            principal_ref=rng.choice(self._tenant.principals),
            # Some of the shared ones are below what is kept.
            entries=(own, *(_shared_entry(number, rng.choice((0.05, 0.5, 0.9))) for number in shared)),
            origin=Origin.RUNNER,
        )

    def _importance(self) -> float:
        return self._rng.randint(20, 100) / 100


def _shared_entry(number: int, importance: float) -> EntryBody:
    return EntryBody(text=f"Lesson {number} {CANARY} that many learnt", importance=importance)


class Sessions:
    """Makes ends of sessions, each of which teaches the one lesson about its tool (`book_<word>`)."""

    def __init__(self, tenant: Tenant, rng: random.Random) -> None:
        self._tenant = tenant
        self._rng = rng

    def __call__(self) -> SessionEnded:
        """The next one."""
        tool = f"book_{self._rng.choice(TOOLS)}"
        return SessionEnded(
            event_id=new_uuid(self._rng),
            occurred_at=datetime.now(UTC),
            organization_uuid=self._tenant.organization_uuid,
            agent_config_uuid=self._rng.choice(self._tenant.configs),
            session_uuid=new_uuid(self._rng),
            caller=CallerBody(kind=CallerKind.NONE),
            outcome="success",
            task=f"Book a table {CANARY}",
            step_count=2,
            trace=(
                ToolCallBody(
                    tool=tool, input={"seats": 0}, output="Error: seats must be positive", is_error=True
                ),
                ToolCallBody(tool=tool, input={"seats": 2}, output="booked"),
            ),
        )


class RecalledSessions:
    """Makes recalls of given entries, and ends and ratings of their sessions, in any order."""

    def __init__(self, tenant: Tenant, rng: random.Random, memories: Sequence[tuple[UUID, UUID]]) -> None:
        """Take the entries as (agent config, memory id)."""
        self._tenant = tenant
        self._rng = rng
        self._memories = {
            config: [memory for of_config, memory in memories if of_config == config]
            for config, _ in memories
        }
        self._waiting: list[Event] = []

    def __call__(self) -> Event:
        """The next one."""
        if not self._waiting:
            self._waiting = self._of_one_session()
        return self._waiting.pop()

    def _of_one_session(self) -> list[Event]:
        rng, session = self._rng, new_uuid(self._rng)
        config = rng.choice(tuple(self._memories))
        events: list[Event] = [self._recall(config, session) for _ in range(rng.randint(1, 3))]
        events.append(
            SessionEnded(
                **self._envelope(config),
                session_uuid=session,
                caller=CallerBody(kind=CallerKind.NONE),
                outcome=rng.choice(("success", "failed")),
                step_count=1,
            )
        )
        events.append(
            SessionRated(**self._envelope(config), session_uuid=session, quality_score=rng.choice((0.2, 0.9)))
        )
        rng.shuffle(events)
        return events

    def _recall(self, config: UUID, session: UUID) -> RecallRecorded:
        handed_out = self._rng.sample(self._memories[config], 5)
        return RecallRecorded(
            **self._envelope(config),
            session_uuid=session,
            caller=CallerBody(kind=CallerKind.NONE),
            requested_strategy=Strategy.LAST_K,
            strategy=Strategy.LAST_K,
            top_k=10,
            cue=f"What is known of tables {CANARY}",
            budget_used_chars=100,
            entries=tuple(
                RecalledEntry(memory_id=memory, rank=rank, importance=0.5)
                for rank, memory in enumerate(handed_out, start=1)
            ),
        )

    def _envelope(self, config: UUID) -> dict[str, object]:
        return {
            "event_id": new_uuid(self._rng),
            "occurred_at": datetime.now(UTC),
            "organization_uuid": self._tenant.organization_uuid,
            "agent_config_uuid": config,
        }


class Prunes:
    """Makes requests to cut agent configs to their own cap."""

    def __init__(self, tenant: Tenant, rng: random.Random) -> None:
        self._tenant = tenant
        self._rng = rng

    def __call__(self) -> PruneRequested:
        """The next one."""
        return PruneRequested(
            event_id=new_uuid(self._rng),
            occurred_at=datetime.now(UTC),
            organization_uuid=self._tenant.organization_uuid,
            agent_config_uuid=self._rng.choice(self._tenant.configs),
        )


def new_uuid(rng: random.Random) -> UUID:
    """A random UUID that follows from the seed."""
    return UUID(int=rng.getrandbits(128), version=4)
