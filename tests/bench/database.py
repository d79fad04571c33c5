"""All that the benchmark asks of Lorebus's tables, as their owner, by plain asyncpg.

The rule that must not break: nothing here runs while something is measured, but for one count every few milliseconds
after the last answer has come.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import asyncpg

COLUMNS: Final = (
    "organization_uuid",
    "id",
    "agent_config_uuid",
    "principal_ref",
    "fingerprint_version",
    "fingerprint",
    "text",
    "importance",
    "terms",
    "term_hashes",
    "terms_version",
    "origin",
    "created_at",
    "updated_at",
)
"""What a save by import fills in; the rest of a row is made by PostgreSQL."""

MemoryRow = tuple[
    UUID, UUID, UUID, str | None, int, bytes, str, float, str, bytes, int, str, datetime, datetime
]
_TRACES: Final = "lorebus.workflow_runs, lorebus.recalls, lorebus.recall_entries, lorebus.processed_events"


class Stored(NamedTuple):
    """Entries that are there, and the saves they stand for."""

    rows: int
    saves: int


async def connect(url: str) -> asyncpg.Connection:
    """A connection of the owner."""
    return await asyncpg.connect(url)


async def stored(database: asyncpg.Connection) -> Stored:
    """All entries."""
    row = await database.fetchrow(
        "SELECT count(*), coalesce(sum(reinforcement_count + 1), 0)::bigint FROM lorebus.memories"
    )
    return Stored(*row)


async def is_quiet(database: asyncpg.Connection) -> bool:
    """Whether nothing waits to be published."""
    return bool(await database.fetchval("SELECT NOT EXISTS (SELECT FROM lorebus.outbox)"))


async def recorded_recalls(database: asyncpg.Connection) -> int:
    """How many loads are recorded."""
    return int(await database.fetchval("SELECT count(*) FROM lorebus.recalls"))


async def prune_is_done(database: asyncpg.Connection, run: UUID) -> bool:
    """Whether the prune with this workflow id has completed."""
    state = await database.fetchval("SELECT state_name FROM lorebus.workflow_runs WHERE id = $1", run)
    return bool(state == "completed")


async def forget_traces(database: asyncpg.Connection) -> None:
    """Take away what runs and recalls left, so that the next measurement finds what this one found."""
    await database.execute(f"TRUNCATE {_TRACES}")


async def forget_all(database: asyncpg.Connection) -> None:
    """Take away every entry as well."""
    await database.execute(f"TRUNCATE lorebus.memories, lorebus.memory_evidence, lorebus.outbox, {_TRACES}")
    await database.execute("UPDATE lorebus.agent_configs SET entry_count = 0 WHERE entry_count > 0")


async def forget_config(database: asyncpg.Connection, config: UUID) -> None:
    """Take away the entries of one agent config."""
    await database.execute("DELETE FROM lorebus.memories WHERE agent_config_uuid = $1", config)
    await database.execute(
        "UPDATE lorebus.agent_configs SET entry_count = 0 WHERE agent_config_uuid = $1", config
    )


async def add_memories(database: asyncpg.Connection, config: UUID, rows: Sequence[MemoryRow]) -> None:
    """Put rows of one agent config in, and count them as a save does."""
    async with database.transaction():
        await database.copy_records_to_table("memories", schema_name="lorebus", columns=COLUMNS, records=rows)
        await database.execute(
            "UPDATE lorebus.agent_configs SET entry_count = entry_count + $2 WHERE agent_config_uuid = $1",
            config,
            len(rows),
        )


async def settle(database: asyncpg.Connection, *tables: str) -> None:
    """Leave the tables as they are when nothing was written for a while."""
    for table in tables:
        await database.execute(f"VACUUM (ANALYZE) {table}")
    await database.execute("CHECKPOINT")
