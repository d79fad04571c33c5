"""Counting how often entries were handed out.

The rule that must not break: what is counted is there. Rows are locked in the order of their identity, as saves lock
them, and not in the order of their ids.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_store.locks import share_configs
from lorebus_store.statements import Statement


class Access(NamedTuple):
    """Entries of an agent config that were handed out together; one that stands twice counts twice."""

    organization_uuid: UUID
    agent_config_uuid: UUID
    memory_ids: Sequence[UUID]
    at: datetime


@dataclass(slots=True)
class _Told:
    """What is told of an organization's entries: how often each was handed out, and when last."""

    times: Counter[UUID] = field(default_factory=Counter)
    last: dict[UUID, datetime] = field(default_factory=dict)


_COUNT: Final = Statement(
    """
    WITH handed_out AS (
        SELECT * FROM unnest(
            CAST(:organizations AS uuid[]), CAST(:ids AS uuid[]), CAST(:counts AS bigint[]),
            CAST(:times AS timestamptz[])
        ) AS handed_out (organization_uuid, id, count, at)
    ), locked AS MATERIALIZED (
        SELECT organization_uuid, id, h.count, h.at
        FROM lorebus.memories m JOIN handed_out h USING (organization_uuid, id)
        ORDER BY organization_uuid, agent_config_uuid, principal_ref NULLS FIRST, fingerprint_version, fingerprint
        FOR NO KEY UPDATE OF m
    )
    UPDATE lorebus.memories m SET
        access_count = m.access_count + locked.count,
        last_accessed_at = greatest(m.last_accessed_at, locked.at)
    FROM locked WHERE m.organization_uuid = locked.organization_uuid AND m.id = locked.id
    RETURNING m.organization_uuid, m.id
    """
)


async def count(conn: AsyncConnection, accesses: Iterable[Access]) -> Mapping[UUID, set[UUID]]:
    """Add to the access counts of entries; gives those that are there, by organization.

    The shared locks of their agent configs are held from here on, so that they stay there until the transaction ends.
    """
    # In the order of time, so that what is told last of an entry is its latest.
    ordered = sorted(accesses, key=lambda access: access.at)
    told: dict[UUID, _Told] = {}
    for access in ordered:
        of_organization = told.setdefault(access.organization_uuid, _Told())
        of_organization.times.update(access.memory_ids)
        of_organization.last.update(dict.fromkeys(access.memory_ids, access.at))
    there: dict[UUID, set[UUID]] = {organization: set() for organization in told}
    if any(of_organization.times for of_organization in told.values()):
        await share_configs(conn, {access[:2] for access in ordered})
        for organization, memory_id in await _COUNT.rows(conn, _values(told)):
            there[organization].add(memory_id)
    return there


def _values(told: Mapping[UUID, _Told]) -> dict[str, object]:
    return {
        "organizations": [organization for organization, one in told.items() for _ in one.times],
        "ids": [memory_id for one in told.values() for memory_id in one.times],
        "counts": [times for one in told.values() for times in one.times.values()],
        "times": [one.last[memory_id] for one in told.values() for memory_id in one.times],
    }
