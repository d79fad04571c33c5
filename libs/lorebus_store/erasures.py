"""Erasures: what was erased and when, so that nothing late brings it back, and the receipt of each.

The rule that must not break: an erasure is never taken back and never forgotten, and what was erased is kept as a hash.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_contracts.http_memory import SubjectKind
from lorebus_store.statements import Statement


@dataclass(frozen=True, slots=True)
class Subject:
    """Who or what is erased: a principal by its reference, or a session by its UUID as text."""

    kind: SubjectKind
    name: str

    @classmethod
    def principal(cls, principal_ref: str) -> "Subject":
        """A principal."""
        return cls(SubjectKind.PRINCIPAL, principal_ref)

    @classmethod
    def session(cls, session_uuid: UUID) -> "Subject":
        """A session."""
        return cls(SubjectKind.SESSION, str(session_uuid))

    def hashed(self, organization_uuid: UUID) -> bytes:
        """32 bytes that stand for the subject within its organization, and for nobody in another."""
        return sha256(
            b"%s\0%s\0%s" % (self.kind.encode(), organization_uuid.bytes, self.name.encode())
        ).digest()


SubjectKey: TypeAlias = tuple[UUID, bytes]
"""(organization_uuid, hash of the subject)."""


class Marker(NamedTuple):
    """That a subject was erased, in one agent config or (None) in all; a session's erasure holds for good."""

    kind: SubjectKind
    agent_config_uuid: UUID | None
    erased_at: datetime

    def covers(self, agent_config_uuid: UUID, occurred_at: datetime) -> bool:
        """Whether what happened then to the subject in this agent config is erased."""
        if self.agent_config_uuid not in {None, agent_config_uuid}:
            return False
        return self.kind is SubjectKind.SESSION or occurred_at <= self.erased_at


@dataclass(frozen=True, slots=True)
class Counts:
    """How much of each kind an erasure took away."""

    entries: int = 0
    evidence: int = 0
    recalls: int = 0
    recall_entries: int = 0
    sessions: int = 0
    run_inputs: int = 0
    outbox: int = 0
    answers: int = 0


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure that is done."""

    organization_uuid: UUID
    id: UUID
    subject_kind: SubjectKind
    subject_hash: bytes
    agent_config_uuid: UUID | None
    erased_at: datetime
    counts: Counts


_RECORD: Final = Statement(
    """
    INSERT INTO lorebus.erasures
        (organization_uuid, id, subject_kind, subject_hash, agent_config_uuid, erased_at, counts)
    VALUES (:organization_uuid, :id, :subject_kind, :subject_hash, CAST(:agent_config_uuid AS uuid), :erased_at,
        CAST(:counts AS jsonb))
    """
)
_GET: Final = Statement(
    """
    SELECT organization_uuid, id, subject_kind, subject_hash, agent_config_uuid, erased_at, counts
    FROM lorebus.erasures WHERE organization_uuid = :organization_uuid AND id = :id
    """
)
_WITH_ERASURES: Final = Statement(
    """
    SELECT asked.organization_uuid FROM unnest(CAST(:organizations AS uuid[])) AS asked (organization_uuid)
    WHERE EXISTS (SELECT FROM lorebus.erasures e WHERE e.organization_uuid = asked.organization_uuid)
    """
)
_MARKERS: Final = Statement(
    """
    SELECT e.organization_uuid, e.subject_hash, e.subject_kind, e.agent_config_uuid, max(e.erased_at)
    FROM lorebus.erasures e
    JOIN unnest(CAST(:organizations AS uuid[]), CAST(:hashes AS bytea[])) AS asked (organization_uuid, subject_hash)
        USING (organization_uuid, subject_hash)
    GROUP BY e.organization_uuid, e.subject_hash, e.subject_kind, e.agent_config_uuid
    """
)


async def record(conn: AsyncConnection, erasure: Erasure) -> None:
    """Keep an erasure, in the transaction that does it."""
    values = asdict(erasure) | {"counts": json.dumps(asdict(erasure.counts))}
    await _RECORD.run(conn, values)


async def get(conn: AsyncConnection, organization_uuid: UUID, erasure_id: UUID) -> Erasure | None:
    """The erasure; None when the organization has no such erasure."""
    row = await _GET.row(conn, {"organization_uuid": organization_uuid, "id": erasure_id})
    if row is None:
        return None
    organization, found_id, kind, hashed, config, erased_at, counts = row
    return Erasure(organization, found_id, SubjectKind(kind), hashed, config, erased_at, Counts(**counts))


async def organizations_with_erasures(
    conn: AsyncConnection, organizations: Collection[UUID]
) -> frozenset[UUID]:
    """Those of the organizations that have erased anything at all: of the others nothing need be asked."""
    rows = await _WITH_ERASURES.rows(conn, {"organizations": list(set(organizations))})
    return frozenset(row[0] for row in rows)


async def markers(
    conn: AsyncConnection, subjects: Collection[SubjectKey]
) -> Mapping[SubjectKey, tuple[Marker, ...]]:
    """When each subject was erased last, in which agent configs; those that never were are left out.

    The caller holds `locks.share_organizations`, so that no erasure is missed that is being done.
    """
    asked = tuple(set(subjects))
    if not asked:
        return {}
    values = {"organizations": [o for o, _ in asked], "hashes": [h for _, h in asked]}
    found: dict[SubjectKey, list[Marker]] = {}
    for organization, hashed, kind, config, erased_at in await _MARKERS.rows(conn, values):
        found.setdefault((organization, hashed), []).append(Marker(SubjectKind(kind), config, erased_at))
    return {key: tuple(of_key) for key, of_key in found.items()}
