"""Taking the lowest entries of an agent config away.

The rule that must not break: what was deleted and what is left is exact, beside saves too. The config is locked for it,
and lowest importance goes first, oldest among equals, then by id (SPEC.md section 7). Entries that are held back count
for nothing here and stay.
"""

from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_store.locks import ConfigPair, lock_config
from lorebus_store.statements import Statement


class LowEntry(NamedTuple):
    """An entry that a prune would take."""

    id: UUID
    principal_ref: str | None
    text: str
    importance: float
    created_at: datetime


class WouldPrune(NamedTuple):
    """How many entries would go and how many stay, and the first of those that go, lowest first."""

    excess: int
    remaining: int
    first: tuple[LowEntry, ...]


# The last condition always holds; it names the index `memories_of_config`.
_OF_CONFIG: Final = """organization_uuid = :organization_uuid AND agent_config_uuid = :agent_config_uuid
    AND state = 'active' AND importance >= 0"""
# Exact while the config is locked: whoever adds an entry or takes one away counts it in the same transaction.
_COUNT: Final = Statement(
    """
    SELECT entry_count FROM lorebus.agent_configs
    WHERE organization_uuid = :organization_uuid AND agent_config_uuid = :agent_config_uuid
    """
)
_LOWEST: Final = Statement(
    f"""
    SELECT {", ".join(LowEntry._fields)} FROM lorebus.memories WHERE {_OF_CONFIG}
    ORDER BY importance, created_at, id LIMIT :count
    """
)


def _delete_lowest(beyond: str) -> str:
    # By their place in the table, which nobody changes while the config is locked: in two thirds of the time that it
    # takes to look each one up by its key.
    return f"""
    WITH doomed AS (
        SELECT ctid FROM lorebus.memories WHERE {_OF_CONFIG} {beyond}
        ORDER BY importance, created_at, id LIMIT :count
    ), gone AS (
        DELETE FROM lorebus.memories m USING doomed
        WHERE m.organization_uuid = :organization_uuid AND m.ctid = doomed.ctid
        RETURNING m.importance, m.created_at, m.id
    ), evidence AS (
        DELETE FROM lorebus.memory_evidence e USING gone
        WHERE e.organization_uuid = :organization_uuid AND e.memory_id = gone.id
    )
    SELECT importance, created_at, id FROM gone ORDER BY importance, created_at, id
    """


_DELETE_LOWEST: Final = Statement(_delete_lowest(""))
# Going on behind the last chunk: from the index's end, each chunk would walk over all that is deleted already.
_DELETE_NEXT_LOWEST: Final = Statement(
    _delete_lowest(
        """AND (importance, created_at, id)
            > (CAST(:importance AS double precision), CAST(:created_at AS timestamptz), CAST(:id AS uuid))"""
    )
)
_COUNT_DELETED: Final = Statement(
    """
    UPDATE lorebus.agent_configs SET entry_count = entry_count - CAST(:deleted AS bigint)
    WHERE organization_uuid = :organization_uuid AND agent_config_uuid = :agent_config_uuid
    """
)


async def prune_lowest(
    conn: AsyncConnection, pair: ConfigPair, *, keep: int, chunk: int, at_most: int | None = None
) -> tuple[UUID, ...]:
    """Delete the lowest entries of a config until it holds `keep`; their ids, lowest first.

    Lowest importance first, oldest among equals, then by id (SPEC.md section 7). The config is locked
    (`lock_config`), so that the result is exact beside saves, and its counter counts what is left. At most
    `chunk` entries a statement; with `at_most`, no more than that many in this transaction.
    """
    await lock_config(conn, pair)
    key = _config_key(pair)
    count = await _COUNT.value(conn, key)
    excess = max(0, count - keep) if at_most is None else max(0, min(count - keep, at_most))
    deleted: list[UUID] = []
    last: dict[str, object] = {}
    while len(deleted) < excess:
        statement = _DELETE_NEXT_LOWEST if last else _DELETE_LOWEST
        step = {"count": min(chunk, excess - len(deleted))}
        rows = await statement.rows(conn, key | last | step)
        if not rows:
            raise AssertionError("an agent config counts more entries than it has")
        deleted += [row[2] for row in rows]
        last = {"importance": rows[-1][0], "created_at": rows[-1][1], "id": rows[-1][2]}
    await _COUNT_DELETED.run(conn, key | {"deleted": len(deleted)})
    return tuple(deleted)


async def would_prune(conn: AsyncConnection, pair: ConfigPair, *, keep: int, limit: int) -> WouldPrune:
    """What a prune to `keep` would delete now; at most `limit` entries are shown."""
    count = await _COUNT.value(conn, _config_key(pair))
    excess = max(0, count - keep)
    rows = await _LOWEST.rows(conn, _config_key(pair) | {"count": min(limit, excess)})
    return WouldPrune(excess, count - excess, tuple(map(LowEntry._make, rows)))


def _config_key(pair: ConfigPair) -> dict[str, object]:
    return {"organization_uuid": pair[0], "agent_config_uuid": pair[1]}
