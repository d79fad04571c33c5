"""Entries that are held back until a person has looked at them.

The rule that must not break: an entry that is held is in no load, no count and no prune; it becomes memory by
`release` alone, and goes by `memories.delete_entry`.
"""

from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_store.memories import EntryDetails, Page, share_configs
from lorebus_store.statements import Statement

_OF_CONFIG: Final = """organization_uuid = :organization_uuid AND agent_config_uuid = :agent_config_uuid
    AND state = 'quarantined' AND importance >= :min_importance"""
_LIST: Final = Statement(
    f"""
    SELECT {", ".join(EntryDetails._fields)} FROM lorebus.memories WHERE {_OF_CONFIG}
    ORDER BY importance DESC, created_at DESC, id DESC OFFSET :skip LIMIT :per_page
    """
)
_COUNT: Final = Statement(f"SELECT count(*) FROM lorebus.memories WHERE {_OF_CONFIG}")
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


async def list_held(
    conn: AsyncConnection,
    organization_uuid: UUID,
    agent_config_uuid: UUID,
    *,
    min_importance: float | None = None,
    page: int,
    per_page: int,
) -> Page:
    """A page of what a config has held back, in the order of `memories.list_page`; `page` counts from 1."""
    key = {
        "organization_uuid": organization_uuid,
        "agent_config_uuid": agent_config_uuid,
        "min_importance": min_importance or 0.0,
    }
    items = await _LIST.rows(conn, key | {"skip": (page - 1) * per_page, "per_page": per_page})
    return Page(tuple(EntryDetails(*row) for row in items), await _COUNT.value(conn, key))


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
