"""The memory settings of organizations and agent configs.

The rule that must not break: a scope is known only when somebody has put its settings; nothing is written for an
unknown one (SPEC.md section 2).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_domain.recall import PackReach, Strategy
from lorebus_store import reach
from lorebus_store.locks import ConfigPair
from lorebus_store.statements import Statement

CHANGES: Final = "lorebus_changes"
"""The channel on which gateways hear that settings or keys have changed, without saying whose."""


class Unset(Enum):
    """The type of a setting that stays as it is, where None is a value of its own."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


@dataclass(frozen=True, slots=True)
class OrganizationSettings:
    """`model_profile` None: no model is named, and nothing is distilled by one."""

    memory_enabled: bool
    model_profile: str | None


@dataclass(frozen=True, slots=True)
class ConfigSettings:
    """The settings of an agent config; `entry_count` is the exact number of its entries."""

    memory_enabled: bool
    memory_write_enabled: bool
    memory_strategy: Strategy
    memory_top_k: int
    memory_max_entries: int
    memory_pack_reach: PackReach
    entry_count: int


@dataclass(frozen=True, slots=True)
class ScopeSettings:
    """What is known of an organization and of one of its agent configs; None where nothing is."""

    organization: OrganizationSettings | None
    config: ConfigSettings | None

    @property
    def organization_known(self) -> bool:
        """Whether the organization has settings."""
        return self.organization is not None

    @property
    def config_known(self) -> bool:
        """Whether the agent config has settings, within this organization."""
        return self.config is not None


_CONFIG_COLUMNS: Final = """c.memory_enabled, c.memory_write_enabled, c.memory_strategy, c.memory_top_k,
    c.memory_max_entries, c.memory_pack_reach, c.entry_count"""

_LOAD: Final = Statement(
    f"""
    SELECT asked.organization_uuid, asked.agent_config_uuid, o.memory_enabled, o.model_profile, {_CONFIG_COLUMNS}
    FROM unnest(CAST(:organizations AS uuid[]), CAST(:configs AS uuid[]))
        AS asked (organization_uuid, agent_config_uuid)
    LEFT JOIN lorebus.organizations o ON o.organization_uuid = asked.organization_uuid
    LEFT JOIN lorebus.agent_configs c ON c.organization_uuid = asked.organization_uuid
        AND c.agent_config_uuid = asked.agent_config_uuid
    """
)
_TELL: Final = Statement(f"SELECT pg_notify('{CHANGES}', '')")
_GET_ORGANIZATION: Final = Statement(
    "SELECT memory_enabled, model_profile FROM lorebus.organizations WHERE organization_uuid = :organization_uuid"
)
_PUT_ORGANIZATION: Final = Statement(
    """
    INSERT INTO lorebus.organizations AS o (organization_uuid, memory_enabled, model_profile)
    VALUES (:organization_uuid, coalesce(CAST(:memory_enabled AS boolean), true), CAST(:model_profile AS text))
    ON CONFLICT (organization_uuid) DO UPDATE SET
        memory_enabled = coalesce(CAST(:memory_enabled AS boolean), o.memory_enabled),
        model_profile = CASE WHEN CAST(:keep_profile AS boolean) THEN o.model_profile
            ELSE excluded.model_profile END,
        updated_at = now()
    RETURNING memory_enabled, model_profile
    """
)
_GET_CONFIG: Final = Statement(
    f"""
    SELECT {_CONFIG_COLUMNS} FROM lorebus.agent_configs c
    WHERE c.organization_uuid = :organization_uuid AND c.agent_config_uuid = :agent_config_uuid
    """
)
# The defaults of a new row are the table's own: an insert without the settings, then the update of those given.
_ADD_CONFIG: Final = Statement(
    """
    INSERT INTO lorebus.agent_configs (organization_uuid, agent_config_uuid)
    VALUES (:organization_uuid, :agent_config_uuid) ON CONFLICT DO NOTHING
    """
)
_CHANGE_CONFIG: Final = Statement(
    f"""
    UPDATE lorebus.agent_configs c SET
        memory_enabled = coalesce(CAST(:memory_enabled AS boolean), c.memory_enabled),
        memory_write_enabled = coalesce(CAST(:memory_write_enabled AS boolean), c.memory_write_enabled),
        memory_strategy = coalesce(CAST(:memory_strategy AS text), c.memory_strategy),
        memory_top_k = coalesce(CAST(:memory_top_k AS integer), c.memory_top_k),
        memory_max_entries = coalesce(CAST(:memory_max_entries AS integer), c.memory_max_entries),
        memory_pack_reach = coalesce(CAST(:memory_pack_reach AS text), c.memory_pack_reach),
        updated_at = now()
    WHERE c.organization_uuid = :organization_uuid AND c.agent_config_uuid = :agent_config_uuid
    RETURNING {_CONFIG_COLUMNS}
    """
)


async def tell_of_change(conn: AsyncConnection) -> None:
    """Have every gateway ask anew for what it remembers, once this transaction is committed."""
    await _TELL.rows(conn)


async def load_settings(
    conn: AsyncConnection, pairs: Collection[ConfigPair]
) -> Mapping[ConfigPair, ScopeSettings]:
    """What is known of every (organization, agent config) asked for, in one query."""
    asked = tuple(set(pairs))
    rows = await _LOAD.rows(conn, {"organizations": [o for o, _ in asked], "configs": [c for _, c in asked]})
    return {(row[0], row[1]): _scope_settings(row) for row in rows}


async def get_organization(conn: AsyncConnection, organization_uuid: UUID) -> OrganizationSettings | None:
    """The organization's settings; None when it is unknown."""
    row = await _GET_ORGANIZATION.row(conn, {"organization_uuid": organization_uuid})
    return None if row is None else OrganizationSettings(*row)


async def put_organization(
    conn: AsyncConnection,
    organization_uuid: UUID,
    *,
    memory_enabled: bool | None = None,
    model_profile: str | Literal[Unset.UNSET] | None = UNSET,
) -> OrganizationSettings:
    """Make the organization known, or change what is given; what is left out stays, or is the default."""
    values = {
        "organization_uuid": organization_uuid,
        "memory_enabled": memory_enabled,
        "model_profile": None if model_profile is UNSET else model_profile,
        "keep_profile": model_profile is UNSET,
    }
    row = await _PUT_ORGANIZATION.row(conn, values)
    await tell_of_change(conn)
    return OrganizationSettings(*row)


async def get_agent_config(
    conn: AsyncConnection, organization_uuid: UUID, agent_config_uuid: UUID
) -> ConfigSettings | None:
    """The agent config's settings; None when the organization has no such config."""
    values = {"organization_uuid": organization_uuid, "agent_config_uuid": agent_config_uuid}
    row = await _GET_CONFIG.row(conn, values)
    return None if row is None else _config_settings(row)


async def put_agent_config(
    conn: AsyncConnection,
    organization_uuid: UUID,
    agent_config_uuid: UUID,
    *,
    memory_enabled: bool | None = None,
    memory_write_enabled: bool | None = None,
    memory_strategy: Strategy | None = None,
    memory_top_k: int | None = None,
    memory_max_entries: int | None = None,
    memory_pack_reach: PackReach | None = None,
) -> ConfigSettings:
    """Make the agent config known, or change what is given; what is left out stays, or is the default.

    Entries saved before the reach became `all` come into reach at once, or for a large config bit by bit
    (`reach.extend`).

    Raises:
        PermanentError: a number is out of its range (SPEC.md section 5), at the end of the transaction's block.
    """
    pair = (organization_uuid, agent_config_uuid)
    key: dict[str, object] = {"organization_uuid": organization_uuid, "agent_config_uuid": agent_config_uuid}
    before = await get_agent_config(conn, *pair)
    if before is None:
        await _ADD_CONFIG.run(conn, key)
    changes = {
        "memory_enabled": memory_enabled,
        "memory_write_enabled": memory_write_enabled,
        "memory_strategy": memory_strategy,
        "memory_top_k": memory_top_k,
        "memory_max_entries": memory_max_entries,
        "memory_pack_reach": memory_pack_reach,
    }
    after = _config_settings(await _CHANGE_CONFIG.row(conn, key | changes))
    await tell_of_change(conn)
    widened = before is not None and before.memory_pack_reach is not PackReach.ALL
    if widened and after.memory_pack_reach is PackReach.ALL:
        await reach.begin(conn, organization_uuid, agent_config_uuid)
    return after


def _scope_settings(row: Any) -> ScopeSettings:  # noqa: ANN401  # A row of untyped columns.
    return ScopeSettings(
        organization=None if row[2] is None else OrganizationSettings(row[2], row[3]),
        config=None if row[4] is None else _config_settings(row[4:]),
    )


def _config_settings(row: Any) -> ConfigSettings:  # noqa: ANN401  # The same, or the last part of one.
    enabled, write_enabled, strategy, top_k, max_entries, pack_reach, count = row
    return ConfigSettings(
        memory_enabled=enabled,
        memory_write_enabled=write_enabled,
        memory_strategy=Strategy(strategy),
        memory_top_k=top_k,
        memory_max_entries=max_entries,
        memory_pack_reach=PackReach(pack_reach),
        entry_count=count,
    )
