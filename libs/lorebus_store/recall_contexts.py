"""All that a load must know before it reads an entry, in one question: switches, strategy, and the session's task.

The rule that must not break: a session is known only within its own organization and agent config.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_domain.recall import PackReach, Strategy
from lorebus_store.statements import Statement


@dataclass(frozen=True, slots=True)
class RecallContext:
    """What applies to the loads of a session; `task` is '' where none was told."""

    organization_enabled: bool
    config_enabled: bool
    strategy: Strategy
    top_k: int
    pack_reach: PackReach
    task: str


_OF_SESSION: Final = Statement(
    """
    SELECT o.memory_enabled, c.memory_enabled, c.memory_strategy, c.memory_top_k, c.memory_pack_reach, s.task
    FROM lorebus.sessions s
    JOIN lorebus.organizations o ON o.organization_uuid = s.organization_uuid
    JOIN lorebus.agent_configs c
        ON c.organization_uuid = s.organization_uuid AND c.agent_config_uuid = s.agent_config_uuid
    WHERE s.organization_uuid = :organization_uuid AND s.session_uuid = :session_uuid
        AND s.agent_config_uuid = :agent_config_uuid
    """
)


async def of_session(
    conn: AsyncConnection, *, organization_uuid: UUID, agent_config_uuid: UUID, session_uuid: UUID
) -> RecallContext | None:
    """What applies to a session's loads; None when organization, agent config or session of it is not known."""
    values = {
        "organization_uuid": organization_uuid,
        "agent_config_uuid": agent_config_uuid,
        "session_uuid": session_uuid,
    }
    row = await _OF_SESSION.row(conn, values)
    if row is None:
        return None
    organization_enabled, config_enabled, strategy, top_k, pack_reach, task = row
    return RecallContext(
        organization_enabled=organization_enabled,
        config_enabled=config_enabled,
        strategy=Strategy(strategy),
        top_k=top_k,
        pack_reach=PackReach(pack_reach),
        task=task or "",
    )
