"""Who may touch the entries of an agent config at once.

The rule that must not break: whoever adds, changes or removes entries takes the config's shared lock first, and a
prune takes it alone. So a prune sees a count that nobody is changing, and its result is exact. The locks end with the
transaction: a session's lock would leak through a pooler.
"""

from collections.abc import Collection
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
    return int.from_bytes(blake2b(pair[0].bytes + pair[1].bytes, digest_size=8).digest(), signed=True)


async def share_configs(conn: AsyncConnection, pairs: Collection[ConfigPair]) -> None:
    """Hold the shared lock of each agent config until the transaction ends.

    Raises:
        TransientError: a prune held one of them for longer than the lock timeout.
    """
    # In the order of their numbers, so that two transactions never wait for each other.
    await _SHARE.rows(conn, {"keys": sorted({lock_order(pair) for pair in pairs})})


async def lock_config(conn: AsyncConnection, pair: ConfigPair) -> None:
    """Wait until nobody else writes entries of the config, and keep it so until the transaction ends.

    Whoever locks several does it by `lock_order`.

    Raises:
        TransientError: others held it for longer than the lock timeout.
    """
    await _LOCK.rows(conn, {"key": lock_order(pair)})


async def try_lock_config(conn: AsyncConnection, pair: ConfigPair) -> bool:
    """As `lock_config`, without waiting: False when somebody else is writing."""
    return bool(await _TRY_LOCK.value(conn, {"key": lock_order(pair)}))
