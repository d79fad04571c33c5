"""Giving older entries what newer ones are saved with, config after config and chunk after chunk.

They come into reach after their config's `memory_pack_reach` became `all`, and have their terms hashed after the
migration that added the hashes. The rule that must not break: every entry of such a config ends up with both, those
saved meanwhile too, and no request waits for a million rows.
"""

from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_domain import policy
from lorebus_store.acting import Tenants, narrow
from lorebus_store.candidates import HASHES
from lorebus_store.locks import ConfigPair, lock_config
from lorebus_store.statements import Statement

_BEGINNING: Final = UUID(int=0)
_BEGIN: Final = Statement(
    """
    UPDATE lorebus.agent_configs SET reach_pending = true, reach_cursor = NULL
    WHERE organization_uuid = :organization_uuid AND agent_config_uuid = :agent_config_uuid
    """
)
_NEXT: Final = Statement(
    """
    SELECT organization_uuid, agent_config_uuid FROM lorebus.agent_configs
    WHERE reach_pending ORDER BY updated_at LIMIT 1
    """
)
_CURSOR: Final = Statement(
    """
    SELECT reach_cursor, memory_pack_reach = 'all' FROM lorebus.agent_configs
    WHERE organization_uuid = :organization_uuid AND agent_config_uuid = :agent_config_uuid AND reach_pending
    """
)
_MARK: Final = Statement(
    f"""
    WITH next AS (
        SELECT id FROM lorebus.memories
        WHERE organization_uuid = :organization_uuid AND agent_config_uuid = :agent_config_uuid
            AND id > CAST(:cursor AS uuid)
        ORDER BY id LIMIT :chunk
    ), marked AS (
        UPDATE lorebus.memories m SET in_reach = m.in_reach OR CAST(:into_reach AS boolean), term_hashes = {HASHES}
        FROM next
        WHERE m.organization_uuid = :organization_uuid AND m.id = next.id
            AND (m.term_hashes IS NULL OR (CAST(:into_reach AS boolean) AND NOT m.in_reach))
    )
    SELECT count(*), (SELECT id FROM next ORDER BY id DESC LIMIT 1) FROM next
    """
)
_MOVE: Final = Statement(
    """
    UPDATE lorebus.agent_configs SET reach_pending = :pending, reach_cursor = :cursor
    WHERE organization_uuid = :organization_uuid AND agent_config_uuid = :agent_config_uuid
    """
)


async def begin(conn: AsyncConnection, organization_uuid: UUID, agent_config_uuid: UUID) -> None:
    """Mark the entries of a config of ordinary size now; a larger one's rest waits for `extend`."""
    key = {"organization_uuid": organization_uuid, "agent_config_uuid": agent_config_uuid}
    await _BEGIN.run(conn, key)
    await _extend(conn, (organization_uuid, agent_config_uuid), chunk=policy.DEFAULT_MAX_ENTRIES)


async def extend(conn: AsyncConnection, *, chunk: int) -> bool:
    """Give up to `chunk` more entries of one config what they lack; False when no config waits for it.

    This is a queue of the system (`SystemRole.HOUSEKEEPING`): the config may be any organization's, for which alone
    the transaction then goes on.
    """
    pair = await _NEXT.row(conn)
    if pair is None:
        return False
    await narrow(conn, Tenants.of(pair[0]))
    await _extend(conn, (pair[0], pair[1]), chunk=chunk)
    return True


async def _extend(conn: AsyncConnection, pair: ConfigPair, *, chunk: int) -> None:
    # Alone with the config: rows are marked in id order, which is not the order in which saves lock them.
    await lock_config(conn, pair)
    key = {"organization_uuid": pair[0], "agent_config_uuid": pair[1]}
    cursor, into_reach = await _CURSOR.row(conn, key)
    step = {"cursor": cursor or _BEGINNING, "into_reach": into_reach, "chunk": chunk}
    seen, last = await _MARK.row(conn, key | step)
    await _MOVE.run(conn, key | {"pending": seen == chunk, "cursor": last if seen == chunk else None})
