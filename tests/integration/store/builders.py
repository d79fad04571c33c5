"""What the store's tests are made of: one organization, one config, entries and runs in short words."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID, uuid4

from uuid6 import uuid7

from lorebus_contracts.workflows import State, WorkflowType
from lorebus_domain.saving import Entry, FoldedEntry, fold, plan_save
from lorebus_domain.visibility import MemoryScope
from lorebus_store import memories
from lorebus_store.acting import ActsFor, SystemRole, Tenants, opening
from lorebus_store.database import Connection, Database
from lorebus_store.leases import DistillStart
from lorebus_store.memories import EntrySource, PackedCandidates, Upserted
from lorebus_store.run_rows import FinishedRun, InitiatedRun, Step
from lorebus_store.statements import Statement, driver_of
from tests.support.databases import owner_of

ORGANIZATION: Final = UUID("00000000-0000-0000-0000-00000000000a")
OTHER_ORGANIZATION: Final = UUID("00000000-0000-0000-0000-00000000000b")
CONFIG: Final = UUID("00000000-0000-0000-0000-00000000000c")
BOTH: Final = Tenants.of(ORGANIZATION, OTHER_ORGANIZATION)
PAIR: Final = (ORGANIZATION, CONFIG)
SESSION: Final = UUID("00000000-0000-0000-0000-0000000000d0")
NOON: Final = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

DEADLINE_SECONDS: Final = 20.0


class StoreDatabase(Database):
    """As services reach it, for the two organizations of these tests unless a test says otherwise."""

    def __init__(self, url: str) -> None:
        super().__init__(url, application_name="lorebus-tests")
        self.url = url

    @asynccontextmanager
    async def begin(self, acts_for: ActsFor = BOTH) -> AsyncIterator[Connection]:
        async with super().begin(acts_for) as conn:
            yield conn

    @asynccontextmanager
    async def read(self, acts_for: ActsFor = BOTH) -> AsyncIterator[Connection]:
        async with super().read(acts_for) as conn:
            yield conn

    @asynccontextmanager
    async def owner(self) -> AsyncIterator[Connection]:
        """A transaction of the owner, who arranges what no service may."""
        owned = Database(owner_of(self.url), pool_size=1, as_owner=True)
        try:
            async with owned.begin(BOTH) as conn:
                yield conn
        finally:
            await owned.dispose()


async def act_as(conn: Connection, role: SystemRole) -> None:
    """Go on with the rights of the system's own work, in a transaction of the owner."""
    await driver_of(conn).execute(opening(role))


def folded(scope: MemoryScope, *texts: str, importance: float = 0.5) -> tuple[FoldedEntry, ...]:
    plan = plan_save([Entry(text, importance) for text in texts])
    return fold((scope, entry) for entry in plan.kept)


async def save(
    conn: Connection,
    entries: Sequence[FoldedEntry],
    *,
    at: datetime | None = None,
    source: EntrySource | None = None,
) -> tuple[Upserted, ...]:
    """What the save consumer does with entries, counters included."""
    pairs = [(entry.scope.organization_uuid, entry.scope.agent_config_uuid) for entry in entries]
    await memories.share_configs(conn, pairs)
    upserted = await memories.upsert_reinforcing(
        conn,
        entries,
        ids=[uuid7() for _ in entries],
        sources=[source or EntrySource("runner")] * len(entries),
        at=at,
    )
    added = Counter(pair for pair, row in zip(pairs, upserted, strict=True) if row.adds_memory)
    await memories.add_to_counters(conn, added)
    return upserted


def ids_of(found: PackedCandidates) -> list[UUID]:
    return [UUID(bytes=found.ids[start : start + 16]) for start in range(0, len(found.ids), 16)]


async def value(conn: Connection, sql: str, **values: object) -> Any:  # noqa: ANN401  # Whatever was asked for.
    return await Statement(sql).value(conn, values)


async def run_sql(conn: Connection, sql: str, **values: object) -> None:
    await Statement(sql).run(conn, values)


async def entry_count(database: StoreDatabase) -> int:
    async with database.read() as conn:
        count: int = await value(conn, "SELECT entry_count FROM lorebus.agent_configs")
    return count


async def stored_texts(database: StoreDatabase) -> list[str]:
    async with database.read() as conn:
        return [
            row[0] for row in await Statement("SELECT text FROM lorebus.memories ORDER BY text").rows(conn)
        ]


def finished_run(run_id: UUID, *, state_name: State = State.COMPLETED, state_data: str = "{}") -> FinishedRun:
    return FinishedRun(
        organization_uuid=ORGANIZATION,
        id=run_id,
        type=WorkflowType.MEMORY_SAVE,
        state_name=state_name,
        state_data=state_data,
        agent_config_uuid=CONFIG,
        session_uuid=SESSION,
        created_at=NOON,
        finished_at=NOON,
        steps=(Step(State.RUN, NOON), Step(state_name, NOON)),
    )


def initiated_run(run_id: UUID, *, pending_input: bytes = b"the event") -> InitiatedRun:
    return InitiatedRun(
        organization_uuid=ORGANIZATION,
        id=run_id,
        type=WorkflowType.MEMORY_SAVE,
        agent_config_uuid=CONFIG,
        session_uuid=SESSION,
        pending_input=pending_input,
        created_at=NOON,
    )


def distill_start(
    *,
    organization_uuid: UUID = ORGANIZATION,
    pending_input: bytes | None = b"prepared",
    state_data: str = "{}",
) -> DistillStart:
    return DistillStart(
        organization_uuid=organization_uuid,
        id=uuid4(),
        agent_config_uuid=CONFIG,
        session_uuid=uuid4(),
        created_at=NOON,
        at=NOON,
        pending_input=pending_input,
        state_data=state_data,
    )


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds; fails after twenty seconds."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not await holds():  # noqa: ASYNC110  # A server's state sets no event of ours.
            await asyncio.sleep(0.01)


async def backend_id(conn: Connection) -> int:
    pid: int = await value(conn, "SELECT pg_backend_pid()")
    return pid


async def is_waiting_for_a_lock(database: StoreDatabase, pid: int) -> bool:
    async with database.read() as conn:
        return bool(
            await value(
                conn,
                "SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = :pid AND wait_event_type = 'Lock'",
                pid=pid,
            )
        )


async def plan(conn: Connection, statement: Statement) -> str:
    """How the server would run a statement whose values it does not know, as it does for every load."""
    driver = driver_of(conn)
    unknown = f"({', '.join(['NULL'] * len(statement.parameters))})" if statement.parameters else ""
    await driver.execute(f"PREPARE asked AS {statement.sql}")
    lines = await driver.fetch(f"EXPLAIN EXECUTE asked {unknown}")
    await driver.execute("DEALLOCATE asked")
    return "\n".join(line[0] for line in lines)


class SlowWire:
    """A TCP proxy before the database that can stop passing anything on, as a server does that hangs."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._questions = asyncio.Event()
        self._answers = asyncio.Event()
        self.let_flow()
        self.port = 0

    def hold(self) -> None:
        self._questions.clear()
        self._answers.clear()

    def hold_answers(self) -> None:
        self._answers.clear()

    def let_flow(self) -> None:
        self._questions.set()
        self._answers.set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["SlowWire"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self.let_flow()
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection(*self._upstream)
        await asyncio.gather(
            _pass(reader, upstream_writer, self._questions), _pass(upstream_reader, writer, self._answers)
        )


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flowing: asyncio.Event) -> None:
    try:
        while data := await reader.read(65_536):
            await flowing.wait()
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
