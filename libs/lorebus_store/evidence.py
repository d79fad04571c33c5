"""What stands behind an entry: each distill that taught it, and whether its session had recalled it before.

The rule that must not break: a lesson that a session was handed and gives back is an echo, not a second witness; the
two are kept apart for good, and go with their entry.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_domain.evidence import EvidenceKind
from lorebus_domain.fingerprint import FINGERPRINT_VERSION
from lorebus_store.statements import Statement


class NewEvidence(NamedTuple):
    """A save of a lesson; one row for each entry and event."""

    organization_uuid: UUID
    memory_id: UUID
    event_id: UUID
    session_uuid: UUID
    kind: EvidenceKind


class Evidence(NamedTuple):
    """One line of an entry's history."""

    event_id: UUID
    session_uuid: UUID
    kind: EvidenceKind
    at: datetime


# By session first: a session has few recalls, and each its entries by key.
_RECALLED: Final = Statement(
    """
    SELECT DISTINCT r.organization_uuid, r.session_uuid, m.fingerprint
    FROM unnest(CAST(:organizations AS uuid[]), CAST(:sessions AS uuid[])) AS asked (organization_uuid, session_uuid)
    JOIN lorebus.recalls r USING (organization_uuid, session_uuid)
    JOIN lorebus.recall_entries e USING (organization_uuid, recall_id)
    JOIN lorebus.memories m ON m.organization_uuid = e.organization_uuid AND m.id = e.memory_id
    WHERE m.fingerprint_version = CAST(:version AS smallint)
    """
)
_RECALLED_TEXTS: Final = Statement(
    """
    SELECT DISTINCT m.text
    FROM lorebus.recalls r
    JOIN lorebus.recall_entries e USING (organization_uuid, recall_id)
    JOIN lorebus.memories m ON m.organization_uuid = e.organization_uuid AND m.id = e.memory_id
    WHERE r.organization_uuid = :organization_uuid AND r.session_uuid = :session_uuid
    LIMIT :limit
    """
)
_RECORD: Final = Statement(
    """
    INSERT INTO lorebus.memory_evidence (organization_uuid, memory_id, event_id, session_uuid, kind)
    SELECT * FROM unnest(
        CAST(:organizations AS uuid[]), CAST(:memories AS uuid[]), CAST(:events AS uuid[]), CAST(:sessions AS uuid[]),
        CAST(:kinds AS text[])
    )
    ON CONFLICT DO NOTHING
    """
)
_OF_ENTRY: Final = Statement(
    """
    SELECT event_id, session_uuid, kind, at FROM lorebus.memory_evidence
    WHERE organization_uuid = :organization_uuid AND memory_id = :memory_id
    ORDER BY at DESC, event_id DESC LIMIT :limit
    """
)


async def recalled_fingerprints(
    conn: AsyncConnection, sessions: Collection[tuple[UUID, UUID]]
) -> Mapping[tuple[UUID, UUID], frozenset[bytes]]:
    """What each (organization, session) was handed by its recalls, as far as they are recorded and the entries there.

    An entry counts whatever its scope: a lesson may be recalled from the shared pool and saved for a person.
    """
    asked = tuple(set(sessions))
    if not asked:
        return {}
    values = {"organizations": [o for o, _ in asked], "sessions": [s for _, s in asked]}
    found: dict[tuple[UUID, UUID], set[bytes]] = {}
    for organization, session, fingerprint in await _RECALLED.rows(
        conn, values | {"version": FINGERPRINT_VERSION}
    ):
        found.setdefault((organization, session), set()).add(fingerprint)
    return {key: frozenset(fingerprints) for key, fingerprints in found.items()}


async def recalled_texts(
    conn: AsyncConnection, organization_uuid: UUID, session_uuid: UUID, *, limit: int
) -> tuple[str, ...]:
    """The texts that a session was handed by its recalls, as far as they are recorded; at most `limit` of them."""
    values = {"organization_uuid": organization_uuid, "session_uuid": session_uuid, "limit": limit}
    return tuple(row[0] for row in await _RECALLED_TEXTS.rows(conn, values))


async def record(conn: AsyncConnection, rows: Sequence[NewEvidence]) -> None:
    """Keep evidence, each once."""
    if not rows:
        return
    values = {
        "organizations": [row.organization_uuid for row in rows],
        "memories": [row.memory_id for row in rows],
        "events": [row.event_id for row in rows],
        "sessions": [row.session_uuid for row in rows],
        "kinds": [row.kind for row in rows],
    }
    await _RECORD.run(conn, values)


async def of_entry(
    conn: AsyncConnection, organization_uuid: UUID, memory_id: UUID, *, limit: int
) -> tuple[Evidence, ...]:
    """An entry's evidence, newest first, at most `limit`."""
    values = {"organization_uuid": organization_uuid, "memory_id": memory_id, "limit": limit}
    return tuple(
        Evidence(event, session, EvidenceKind(kind), at)
        for event, session, kind, at in await _OF_ENTRY.rows(conn, values)
    )
