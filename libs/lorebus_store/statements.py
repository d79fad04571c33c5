"""Statements: SQL with named parameters, ready for the driver.

The rule that must not break: a statement is a constant of its module and its values are bound. SQLAlchemy puts the
parameters in the driver's form once, at import; a run then goes straight to the connection, because its result objects
would cost as much as a whole `last_k` load (`docs/decisions/statements-go-to-the-driver.md`).
"""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.dialects.postgresql.asyncpg import dialect
from sqlalchemy.ext.asyncio import AsyncConnection

_NO_VALUES: Final[Mapping[str, object]] = {}


class Statement:
    """One statement with parameters written `:name`; rows come back as tuples in the order of its columns."""

    def __init__(self, sql: str) -> None:
        compiled = text(sql).compile(dialect=dialect())  # type: ignore[no-untyped-call]  # SQLAlchemy's own gap.
        self.sql = str(compiled)
        self.parameters = tuple(compiled.positiontup or ())

    async def rows(self, conn: AsyncConnection, values: Mapping[str, object] = _NO_VALUES) -> list[Any]:
        """All rows.

        Raises:
            TimeoutError: the server did not answer in time; the connection is closed.
            asyncpg.PostgresError, asyncpg.InterfaceError, OSError: as the driver says it.
        """
        driver = driver_of(conn)
        try:
            found: list[Any] = await driver.fetch(self.sql, *[values[name] for name in self.parameters])
        except TimeoutError:
            # A polite end would wait for the same server once more.
            driver.terminate()
            raise
        return found

    async def row(self, conn: AsyncConnection, values: Mapping[str, object] = _NO_VALUES) -> Any:  # noqa: ANN401  # As rows.
        """The first row, or None; the statement is written to give no more than one.

        Raises:
            TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError: as `rows`.
        """
        found = await self.rows(conn, values)
        return found[0] if found else None

    async def value(self, conn: AsyncConnection, values: Mapping[str, object] = _NO_VALUES) -> Any:  # noqa: ANN401  # As rows.
        """The first column of the first row, or None without a row.

        Raises:
            TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError: as `rows`.
        """
        found = await self.rows(conn, values)
        return found[0][0] if found else None

    async def run(self, conn: AsyncConnection, values: Mapping[str, object] = _NO_VALUES) -> int:
        """How many rows it wrote or deleted.

        Raises:
            TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError: as `rows`.
        """
        driver = driver_of(conn)
        try:
            status: str = await driver.execute(self.sql, *[values[name] for name in self.parameters])
        except TimeoutError:
            driver.terminate()
            raise
        # The server says "UPDATE 3", and of a SELECT how many rows it had.
        return int(status.rpartition(" ")[2])


def driver_of(conn: AsyncConnection) -> Any:  # noqa: ANN401  # asyncpg ships no types.
    """The asyncpg connection underneath."""
    checked_out = conn.sync_connection
    if checked_out is None:
        raise RuntimeError("the connection is used before it was opened")
    return checked_out.connection.driver_connection
