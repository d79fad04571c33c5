"""The database as a command of operators has it: one connection, for runs and letters of any organization."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lorebus_ops.errors import RefusedError
from lorebus_store.database import Database


@asynccontextmanager
async def system_database(database_url: str, *, refuses_unheld: bool = True) -> AsyncIterator[Database]:
    """A pool of one connection, closed at the end; like a service it refuses a login that the wall would not hold.

    Raises:
        StoreError: when it is used and the database is away, or refuses.
    """
    try:
        database = Database(
            database_url, pool_size=1, application_name="lorebus-command", as_owner=not refuses_unheld
        )
    except ValueError as error:
        raise RefusedError(f"LOREBUS_DATABASE_URL: {error}") from error
    try:
        yield database
    finally:
        await database.dispose()
