"""Deleting what has been kept for long enough.

The rule that must not break: finished runs and handled events are kept longer than any topic or dead-letter topic keeps
its records, because they are what makes a late redelivery harmless (ARCHITECTURE.md, "Idempotent effect").
"""

from datetime import timedelta
from typing import Final, NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection


class Swept(NamedTuple):
    """How many rows of each kind were deleted."""

    runs: int
    processed_events: int
    idempotency_keys: int

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self)


def _delete(table: str, column: str) -> str:
    return f"""
    WITH old AS (
        SELECT ctid FROM lorebus.{table} WHERE {column} < now() - CAST(:older_than AS interval)
        ORDER BY {column} LIMIT :chunk FOR UPDATE SKIP LOCKED
    )
    DELETE FROM lorebus.{table} t USING old WHERE t.ctid = old.ctid
    """


_RUNS: Final = text(_delete("workflow_runs", "finished_at"))
_EVENTS: Final = text(_delete("processed_events", "processed_at"))
_KEYS: Final = text(_delete("idempotency_keys", "created_at"))


async def sweep(
    conn: AsyncConnection,
    *,
    runs_older_than: timedelta,
    events_older_than: timedelta,
    idempotency_keys_older_than: timedelta,
    chunk: int,
) -> Swept:
    """Delete at most `chunk` rows of each kind, oldest first; call again, in a new transaction, until nothing goes.

    This is the system's own work: the rows may be any organization's.
    """
    return Swept(
        runs=(await conn.execute(_RUNS, {"older_than": runs_older_than, "chunk": chunk})).rowcount,
        processed_events=(
            await conn.execute(_EVENTS, {"older_than": events_older_than, "chunk": chunk})
        ).rowcount,
        idempotency_keys=(
            await conn.execute(_KEYS, {"older_than": idempotency_keys_older_than, "chunk": chunk})
        ).rowcount,
    )
