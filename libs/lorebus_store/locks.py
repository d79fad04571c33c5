"""Who may touch the entries of an agent config, or anything that is told of persons, at once.

The rule that must not break: whoever adds, changes or removes entries takes the config's shared lock first, and a
prune takes it alone. So a prune sees a count that nobody is changing, and its result is exact. Likewise whoever keeps
what an event tells holds the organization's shared lock, which an erasure takes alone: nothing is kept behind its back.
The locks end with the transaction: a session's lock would leak through a pooler.

All locks of organizations are taken before any of an agent config, and each kind in the order of its numbers, so that
two transactions never wait for each other.
"""

from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import Final, TypeAlias
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_store.statements import Statement

ConfigPair: TypeAlias = tuple[UUID, UUID]
"""(organization_uuid, agent_config_uuid)."""

_SHARE: Final = Statement(
    "SELECT pg_advisory_xact_lock_shared(key) FROM unnest(CAST(:keys AS bigint[])) AS key"
)
_LOCK: Final = Statement("SELECT pg_advisory_xact_lock(CAST(:key AS bigint))")
_TRY_LOCK: Final = Statement("SELECT pg_try_advisory_xact_lock(CAST(:key AS bigint))")


def lock_order(pair: ConfigPair) -> int:
    """The config's place in the order in which configs are locked, and the number of its lock.

    64 bits of a hash, so that two configs practically never share one.
    """
    return _number(pair[0].bytes + pair[1].bytes)


async def share_configs(conn: AsyncConnection, pairs: Collection[ConfigPair]) -> None:
    """Hold the shared lock of each agent config, and of its organization, until the transaction ends.

    Raises:
        TransientError: a prune or an erasure held one of them for longer than the lock timeout.
    """
    keys = [*_organization_keys(pair[0] for pair in pairs), *sorted({lock_order(pair) for pair in pairs})]
    await _SHARE.rows(conn, {"keys": keys})


async def share_organizations(conn: AsyncConnection, organizations: Collection[UUID]) -> None:
    """Hold the shared lock of each organization until the transaction ends.

    Raises:
        TransientError: an erasure held one of them for longer than the lock timeout.
    """
    await _SHARE.rows(conn, {"keys": _organization_keys(organizations)})


async def lock_organization(conn: AsyncConnection, organization_uuid: UUID) -> None:
    """Wait until nobody else keeps or removes anything of the organization, and keep it so.

    Raises:
        TransientError: others held it for longer than the lock timeout.
    """
    await _LOCK.rows(conn, {"key": _number(organization_uuid.bytes)})


async def lock_config(conn: AsyncConnection, pair: ConfigPair) -> None:
    """Wait until nobody else writes entries of the config, and keep it so until the transaction ends.

    Whoever locks several does it by `lock_order`, after `share_organizations`.

    Raises:
        TransientError: others held it for longer than the lock timeout.
    """
    await share_organizations(conn, pair[:1])
    await _LOCK.rows(conn, {"key": lock_order(pair)})


async def try_lock_config(conn: AsyncConnection, pair: ConfigPair) -> bool:
    """As `lock_config`, without waiting: False when somebody else is writing."""
    await share_organizations(conn, pair[:1])
    return bool(await _TRY_LOCK.value(conn, {"key": lock_order(pair)}))


def _organization_keys(organizations: Iterable[UUID]) -> list[int]:
    return sorted({_number(organization.bytes) for organization in organizations})


def _number(name: bytes) -> int:
    return int.from_bytes(blake2b(name, digest_size=8).digest(), signed=True)
