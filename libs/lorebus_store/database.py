"""The connections: one pool a process, with timeouts on every one of them.

The rules that must not break: nothing waits for ever. The server ends slow statements, lock waits and idle
transactions by itself; a server that has stopped answering is given up by the client's own clock. And no statement
about anybody's rows runs before its transaction has said whom it acts for, over a login that row-level security holds.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, TypeAlias
from uuid import uuid4

import asyncpg
from sqlalchemy import event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection, QueuePool

from lorebus_store.acting import NOBODY, ActsFor, opening
from lorebus_store.errors import translated
from lorebus_store.logins import refuse_unheld
from lorebus_store.statements import Statement, driver_of
from lorebus_store.wakeups import Wakeups

Connection: TypeAlias = AsyncConnection
"""What every function of the store takes first; a name of ours, so that nobody else imports SQLAlchemy."""

STATEMENT_TIMEOUT_MS: Final = 20_000
LOCK_TIMEOUT_MS: Final = 3_000
IDLE_IN_TRANSACTION_TIMEOUT_MS: Final = 15_000
_TIMEOUTS: Final[Mapping[str, str]] = {
    "statement_timeout": str(STATEMENT_TIMEOUT_MS),
    "lock_timeout": str(LOCK_TIMEOUT_MS),
    "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_TIMEOUT_MS),
}
_PLANNING: Final[Mapping[str, str]] = {
    "jit": "off",
    # Our statements have one good plan whatever their values; planning them each time costs a third of a load.
    "plan_cache_mode": "force_generic_plan",
    # A plan is kept while a table grows from nothing to a million rows: an index is right for both.
    "enable_seqscan": "off",
}
_PING: Final = Statement("SELECT 1")
_SET_TIMEOUTS: Final = "".join(f"SET LOCAL {name} = {value};" for name, value in _TIMEOUTS.items())

# A connection that was used within this time is taken as alive: asking first would double a load's round trips.
_TRUSTED_IDLE_SECONDS: Final = 1.0
_PING_TIMEOUT_SECONDS: Final = 3.0
_RECYCLE_SECONDS: Final = 1_800
_GOODBYE_SECONDS: Final = 3.0
_ROLLBACK_SECONDS: Final = 1.0
_DRIVER_ERRORS: Final = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """The pool in numbers of connections: the most it may hold, in use now, and open but idle."""

    size: int
    in_use: int
    idle: int


class Database:
    """A pool of connections to one PostgreSQL; made without connecting.

    `url` is `postgresql://...`, with or without `+asyncpg`. `pooler` says that a transaction-pooling pgbouncer
    is in between: no prepared statement outlives its transaction, and the timeouts are set in each one.
    `as_owner` is for a person's repairs and for tests, who look past row-level security; no service sets it.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 10,
        application_name: str = "lorebus",
        pooler: bool = False,
        as_owner: bool = False,
        command_timeout_seconds: float = 25.0,
        connect_timeout_seconds: float = 5.0,
        pool_timeout_seconds: float = 5.0,
    ) -> None:
        self._pooler = pooler
        self._url = async_url(url)
        self._connect_args: dict[str, Any] = {
            "timeout": connect_timeout_seconds,
            "command_timeout": command_timeout_seconds,
            "server_settings": _server_settings(application_name, pooler=pooler),
        }
        self._engine = create_async_engine(
            self._url,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=pool_timeout_seconds,
            pool_recycle=_RECYCLE_SECONDS,
            pool_use_lifo=True,
            # Transactions are the driver's own (`_transaction`), as statements are.
            isolation_level="AUTOCOMMIT",
            skip_autocommit_rollback=True,
            connect_args=self._connect_args | (_without_statement_caches() if pooler else {}),
        )
        _watch(self._engine)
        if not as_owner:
            event.listen(self._engine.sync_engine, "connect", refuse_unheld)

    @asynccontextmanager
    async def begin(self, acts_for: ActsFor) -> AsyncIterator[AsyncConnection]:
        """A transaction for somebody: committed at the end of the block, rolled back when it raises.

        Raises:
            TransientError: the database is away, busy or too slow; nothing was kept, or (when COMMIT's answer
                was lost) everything was. Whatever runs here must therefore be safe to run again.
            UnheldLoginError: the login is one whom row-level security does not hold.
            PermanentError: the database refused what was asked.
        """
        with translated():
            async with self._engine.connect() as conn, _transaction(conn, self._beginning(opening(acts_for))):
                yield conn

    @asynccontextmanager
    async def read(self, acts_for: ActsFor) -> AsyncIterator[AsyncConnection]:
        """A transaction for somebody that writes nothing; each of its statements sees what is committed by then.

        Raises:
            TransientError, PermanentError, UnheldLoginError: as `begin`.
        """
        with translated():
            beginning = self._beginning(opening(acts_for), "BEGIN READ ONLY")
            async with self._engine.connect() as conn, _transaction(conn, beginning):
                yield conn

    @asynccontextmanager
    async def glance(self) -> AsyncIterator[AsyncConnection]:
        """A connection for statements that say by themselves whom they act for (`acting.GATE`); others see nothing.

        Each is a transaction of its own and one round trip. Behind a pooler, where the next statement may come to
        another server process, they share one.

        Raises:
            TransientError, PermanentError, UnheldLoginError: as `begin`.
        """
        if self._pooler:
            async with self.read(NOBODY) as conn:
                yield conn
        else:
            with translated():
                async with self._engine.connect() as conn:
                    try:
                        yield conn
                    except (asyncio.CancelledError, TimeoutError, asyncpg.InternalClientError):
                        # Whether the server still works on it is not known, and nobody is to wait for that.
                        driver_of(conn).terminate()
                        raise

    async def ping(self) -> None:
        """Ask the database for an answer; for nobody.

        Raises:
            TransientError, PermanentError, UnheldLoginError: as `begin`.
        """
        with translated():
            async with self._engine.connect() as conn, _transaction(conn, self._beginning("")):
                await _PING.rows(conn)

    @asynccontextmanager
    async def listen(self, channel: str) -> AsyncIterator[Wakeups]:
        """Notifications on `channel`, over a connection of its own; behind a pooler there are none.

        They only wake: the connection may be down for a while, and whoever waits must look by itself from time
        to time anyway.
        """
        args, options = self._engine.dialect.create_connect_args(self._url)

        async def connect() -> Any:  # noqa: ANN401  # asyncpg ships no types.
            return await asyncpg.connect(*args, **options, **self._connect_args)

        async with Wakeups(channel, None if self._pooler else connect) as wakeups:
            yield wakeups

    def _beginning(self, opening_sql: str, begin: str = "BEGIN") -> str:
        """All that begins a transaction, for one round trip."""
        return f"{begin};{_SET_TIMEOUTS if self._pooler else ''}{opening_sql}"

    def pool_status(self) -> PoolStatus:
        """The pool in numbers, for metrics."""
        pool = self._engine.pool
        if not isinstance(pool, QueuePool):
            raise TypeError(f"the engine's pool is a {type(pool).__name__}, not a queue")
        return PoolStatus(size=pool.size(), in_use=pool.checkedout(), idle=pool.checkedin())

    async def dispose(self) -> None:
        """Close every idle connection; one whose server does not answer is let go after 3 s."""
        try:
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await self._engine.dispose()
        except TimeoutError:
            await self._engine.dispose(close=False)


def async_url(url: str) -> URL:
    """The address with its driver; libpq's `sslmode` is understood.

    Raises:
        ValueError: it is no address of a PostgreSQL.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() not in {"postgresql", "postgres"}:
        raise ValueError(f"the database is a PostgreSQL, not {parsed.get_backend_name()!r}: postgresql://...")
    query = dict(parsed.query)
    if "sslmode" in query:
        query["ssl"] = query.pop("sslmode")
    return parsed.set(drivername="postgresql+asyncpg", query=query)


def _server_settings(application_name: str, *, pooler: bool) -> dict[str, str]:
    settings = {"application_name": application_name}
    # A pooler refuses start-up settings that it does not know, and would leak them to other clients.
    return settings if pooler else {**settings, **_TIMEOUTS, **_PLANNING}


def _without_statement_caches() -> dict[str, Any]:
    return {
        "statement_cache_size": 0,
        "prepared_statement_cache_size": 0,
        "prepared_statement_name_func": lambda: f"lorebus_{uuid4().hex}",
    }


def _watch(engine: AsyncEngine) -> None:
    event.listen(engine.sync_engine, "checkin", _note_checkin)
    event.listen(engine.sync_engine, "checkout", _refuse_dead)


def _note_checkin(_connection: DBAPIConnection | None, record: ConnectionPoolEntry) -> None:
    record.info["checked_in_at"] = monotonic()


def _refuse_dead(connection: Any, record: ConnectionPoolEntry, _proxy: PoolProxiedConnection) -> None:  # noqa: ANN401
    """What `pool_pre_ping` does, in one round trip instead of three, and only where it may matter."""
    driver = record.driver_connection
    if driver is None or driver.is_closed():
        raise DisconnectionError("the server closed this connection")
    if monotonic() - record.info.get("checked_in_at", monotonic()) < _TRUSTED_IDLE_SECONDS:
        return
    try:
        connection.run_async(lambda raw: raw.execute("SELECT 1", timeout=_PING_TIMEOUT_SECONDS))
    except _DRIVER_ERRORS as error:
        driver.terminate()
        raise DisconnectionError("the server did not answer on this connection") from error


@asynccontextmanager
async def _transaction(conn: AsyncConnection, beginning: str) -> AsyncIterator[None]:
    """A transaction; a connection whose server does not answer is dropped, not asked again."""
    driver = driver_of(conn)
    try:
        await driver.execute(beginning)
        yield
        await driver.execute("COMMIT")
    except (TimeoutError, asyncpg.InternalClientError):
        driver.terminate()
        raise
    except BaseException:
        await _roll_back(driver)
        raise


async def _roll_back(driver: Any) -> None:  # noqa: ANN401  # asyncpg ships no types.
    """Undo what a failed transaction did; the failure itself is what the caller hears of."""
    if driver.is_closed():
        return
    try:
        # Whoever was cancelled because the server does not answer must not wait for it here instead.
        async with asyncio.timeout(_ROLLBACK_SECONDS):
            await driver.execute("ROLLBACK")
    except _DRIVER_ERRORS:
        driver.terminate()
