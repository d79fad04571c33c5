"""What an organization and its agent config have set for recalls, in one question.

The rule that must not break: an agent config is known only within its own organization.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_domain.recall import PackReach, Strategy
from lorebus_store.statements import Statement


@dataclass(frozen=True, slots=True)
class RecallSettings:
    """What applies to the loads of an agent config."""

    organization_enabled: bool
    config_enabled: bool
    strategy: Strategy
    top_k: int
    pack_reach: PackReach


_OF_CONFIG: Final = Statement(
    """
    SELECT o.memory_enabled, c.memory_enabled, c.memory_strategy, c.memory_top_k, c.memory_pack_reach
    FROM lorebus.organizations o JOIN lorebus.agent_configs c ON c.organization_uuid = o.organization_uuid
    WHERE c.organization_uuid = :organization_uuid AND c.agent_config_uuid = :agent_config_uuid
    """
)


async def of_config(
    conn: AsyncConnection, organization_uuid: UUID, agent_config_uuid: UUID
) -> RecallSettings | None:
    """What applies to an agent config's loads; None when organization or agent config is not known."""
    values = {"organization_uuid": organization_uuid, "agent_config_uuid": agent_config_uuid}
    row = await _OF_CONFIG.row(conn, values)
    if row is None:
        return None
    organization_enabled, config_enabled, strategy, top_k, pack_reach = row
    return RecallSettings(
        organization_enabled=organization_enabled,
        config_enabled=config_enabled,
        strategy=Strategy(strategy),
        top_k=top_k,
        pack_reach=PackReach(pack_reach),
    )
