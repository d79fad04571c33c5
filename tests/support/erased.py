"""Looking for traces of somebody in a whole database."""

from collections.abc import Sequence
from typing import Final

from tests.support.databases import ArrangedDatabase

_TABLES: Final = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'lorebus'"


async def traces(database: ArrangedDatabase, *names: str) -> Sequence[str]:
    """The tables in which any of the names stands, in a text or in the bytes of one."""
    found = []
    async with database.read() as connection:
        tables = [row[0] for row in await connection.exec_driver_sql(_TABLES)]
        for table in sorted(tables):
            # Bytes are shown in hex.
            rows = await connection.exec_driver_sql(f"SELECT CAST(t AS text) FROM lorebus.{table} t")  # noqa: S608 - Our own tables.
            whole = "\n".join(row[0] for row in rows)
            found += [table for name in names if name in whole or name.encode().hex() in whole]
    return found
