"""Erasing somebody, and looking for traces of somebody in a whole database."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import UUID, uuid4

from lorebus_store import erasing, erasures, locks
from lorebus_store.erasures import Counts, Erasure, Subject
from tests.support.databases import ArrangedDatabase

_TABLES: Final = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'lorebus'"


async def erase(database: ArrangedDatabase, organization_uuid: UUID, subject: Subject) -> None:
    """Erase a principal or a session as the gateway does."""
    at = datetime.now(UTC)
    async with database.begin() as connection:
        await locks.lock_organization(connection, organization_uuid)
        await erasing.erase(connection, erasing.Wish(organization_uuid, subject), at=at)
        marker = Erasure(
            *(organization_uuid, uuid4(), subject.kind, subject.hashed(organization_uuid), None),
            *(at, Counts()),
        )
        await erasures.record(connection, marker)


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
