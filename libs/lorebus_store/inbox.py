"""Which events a consumer has handled, so that a redelivered one has no second effect.

The rule that must not break: an event is claimed in the transaction of its effect. A second consumer's claim waits for
the first's commit and then gets nothing, or takes over after its rollback.
"""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_store.statements import Statement

_CLAIM: Final = Statement(
    """
    INSERT INTO lorebus.processed_events (organization_uuid, consumer, event_id)
    SELECT organization_uuid, :consumer, event_id
    FROM unnest(CAST(:organizations AS uuid[]), CAST(:events AS uuid[])) AS e (organization_uuid, event_id)
    ON CONFLICT DO NOTHING
    RETURNING organization_uuid, event_id
    """
)


async def claim_events(
    conn: AsyncConnection, consumer: str, keys: Collection[tuple[UUID, UUID]]
) -> set[tuple[UUID, UUID]]:
    """Claim these (organization_uuid, event_id) for a consumer; those that nobody had claimed before."""
    ordered = sorted(set(keys))
    if not ordered:
        return set()
    values = {
        "consumer": consumer,
        "organizations": [organization for organization, _ in ordered],
        "events": [event for _, event in ordered],
    }
    return {(row[0], row[1]) for row in await _CLAIM.rows(conn, values)}
