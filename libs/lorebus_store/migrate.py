"""Bringing a database to the newest tables.

The rules that must not break: any number of processes may do it at once. One migrates in one transaction, the others
wait for it and find nothing left to do. And a migration never takes rows that row-level security hides for rows that
are not there: the server refuses it then.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from lorebus_store import tables
from lorebus_store.database import async_url
from lorebus_store.errors import translated

_SCRIPTS: Final = Path(__file__).parent / "migrations"
_LOCK: Final = text("SELECT pg_advisory_xact_lock(hashtextextended('lorebus.migrate', 0))")
_REFUSE_TO_HIDE_ROWS: Final = text("SET LOCAL row_security = off")
_CONNECT_TIMEOUT_SECONDS: Final = 10.0


async def upgrade(database_url: str, revision: str = "head") -> None:
    """Migrate up to `revision`; does nothing where the database is there already.

    Raises:
        TransientError: the database cannot be reached.
        PermanentError: it refused; nothing was changed.
    """
    async with _transaction(database_url) as conn:
        await conn.execute(_LOCK)
        await conn.execute(_REFUSE_TO_HIDE_ROWS)
        await conn.run_sync(partial(_upgrade, revision=revision))


async def current(database_url: str) -> str | None:
    """The revision that the database is at, None where it was never migrated.

    Raises:
        TransientError: the database cannot be reached.
    """
    async with _transaction(database_url) as conn:
        return await conn.run_sync(_current)


def head() -> str:
    """The revision that this code was written for."""
    newest = scripts().get_current_head()
    if newest is None:
        raise LookupError(f"there are no migrations under {_SCRIPTS.name}")
    return newest


def scripts() -> ScriptDirectory:
    """The migrations that this code knows."""
    return ScriptDirectory.from_config(_config())


@asynccontextmanager
async def _transaction(database_url: str) -> AsyncIterator[AsyncConnection]:
    engine = create_async_engine(
        async_url(database_url), poolclass=NullPool, connect_args={"timeout": _CONNECT_TIMEOUT_SECONDS}
    )
    try:
        with translated():
            async with engine.begin() as conn:
                yield conn
    finally:
        await engine.dispose()


def _config() -> Config:
    config = Config()
    # Alembic reads a percent sign in an option as its own interpolation.
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    return config


def _upgrade(connection: Connection, *, revision: str) -> None:
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _current(connection: Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table_schema": tables.SCHEMA})
    return context.get_current_revision()
