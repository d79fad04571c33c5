"""Everything that the product has written, row by row, to be compared with itself later."""

import json
from typing import Final

import asyncpg

from tests.support.databases import owner_of

_TABLES: Final = (
    "agent_configs",
    "memories",
    "processed_events",
    "recall_entries",
    "recalls",
    "sessions",
    "workflow_runs",
)


async def snapshot(database_url: str) -> dict[str, list[str]]:
    """Each table's rows as JSON, sorted; what only waits to be published is left out."""
    connection = await asyncpg.connect(owner_of(database_url))
    try:
        return {table: await _rows(connection, table) for table in _TABLES}
    finally:
        await connection.close()


async def _rows(connection: asyncpg.Connection, table: str) -> list[str]:
    rows = await connection.fetch(f"SELECT to_jsonb(t) AS row FROM lorebus.{table} t")  # noqa: S608 - Names of ours.
    return sorted(json.dumps(json.loads(row["row"]), sort_keys=True) for row in rows)
