"""Entries that are held back until a person has looked at them.

The rule that must not break: an entry that is held is in no load, no count and no prune; it becomes memory by
`release` alone, and goes by `memories.delete_entry`.
"""

from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_store.memories import share_configs
from lorebus_store.statements import Statement

_CONFIG_OF: Final = Statement(
    """
    SELECT agent_config_uuid FROM lorebus.memories
    WHERE organization_uuid = :organization_uuid AND id = :id AND state = 'quarantined'
    """
)
_RELEASE: Final = Statement(
    """
    WITH released AS (
        UPDATE lorebus.memories SET state = 'active', updated_at = now()
        WHERE organization_uuid = :organization_uuid AND id = :id AND state = 'quarantined'
        RETURNING agent_config_uuid
    )
    UPDATE lorebus.agent_configs c SET entry_count = c.entry_count + 1 FROM released
    WHERE c.organization_uuid = :organization_uuid AND c.agent_config_uuid = released.agent_config_uuid
    RETURNING c.agent_config_uuid
    """
)


async def release(conn: AsyncConnection, organization_uuid: UUID, entry_id: UUID) -> UUID | None:
    """Make an entry that is held memory, and count it; its agent config, None when nothing of that id is held.

    Its `quarantine_reason` stays, so that one can see what it was.
    """
    key = {"organization_uuid": organization_uuid, "id": entry_id}
    config: UUID | None = await _CONFIG_OF.value(conn, key)
    if config is None:
        return None
    await share_configs(conn, [(organization_uuid, config)])
    released: UUID | None = await _RELEASE.value(conn, key)
    return released
