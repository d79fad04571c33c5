"""Deleting what has been kept for long enough.

The rule that must not break: finished runs and handled events are kept longer than any topic or dead-letter topic keeps
its records, because they are what makes a late redelivery harmless (ARCHITECTURE.md, "Idempotent effect").
"""

from datetime import timedelta
from typing import Final, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_store.statements import Statement


class Swept(NamedTuple):
    """How many rows of each kind were deleted."""

    runs: int
    processed_events: int
    idempotency_keys: int
    rate_windows: int

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


_RUNS: Final = Statement(_delete("workflow_runs", "finished_at"))
_EVENTS: Final = Statement(_delete("processed_events", "processed_at"))
_KEYS: Final = Statement(_delete("idempotency_keys", "created_at"))
_WINDOWS: Final = Statement(_delete("rate_windows", "ends_at"))


async def sweep(
    conn: AsyncConnection,
    *,
    runs_older_than: timedelta,
    events_older_than: timedelta,
    idempotency_keys_older_than: timedelta,
    rate_windows_older_than: timedelta,
    chunk: int,
) -> Swept:
    """Delete at most `chunk` rows of each kind, oldest first; call again, in a new transaction, until nothing goes.

    This is the system's own work (`SystemRole.HOUSEKEEPING`): the rows may be any organization's.
    """
    return Swept(
        runs=await _RUNS.run(conn, {"older_than": runs_older_than, "chunk": chunk}),
        processed_events=await _EVENTS.run(conn, {"older_than": events_older_than, "chunk": chunk}),
        idempotency_keys=await _KEYS.run(conn, {"older_than": idempotency_keys_older_than, "chunk": chunk}),
        rate_windows=await _WINDOWS.run(conn, {"older_than": rate_windows_older_than, "chunk": chunk}),
    )
