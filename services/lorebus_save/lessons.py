"""What is special about saves of distilled lessons: some are echoes, some are held back, and all leave evidence.

The rule that must not break: what a session was handed and gave back is told apart from what it learnt by itself, in
the save's results and in the entry's history alike.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from lorebus_contracts.events import Origin, SaveRequested
from lorebus_domain.evidence import EvidenceKind
from lorebus_domain.quarantine import QuarantineReason, quarantine_reason
from lorebus_domain.saving import KeptEntry
from lorebus_domain.visibility import MemoryScope
from lorebus_kit.metrics import HELD
from lorebus_store import evidence
from lorebus_store.database import Connection
from lorebus_store.evidence import NewEvidence
from lorebus_store.memories import Upserted

Rows: TypeAlias = Mapping[MemoryScope, Mapping[bytes, Upserted]]
"""What became of each entry, by scope and fingerprint."""

_NOTHING: Final[frozenset[bytes]] = frozenset()


class KeptLesson(NamedTuple):
    """An entry that is kept, of a save that distilled it."""

    event: SaveRequested
    scope: MemoryScope
    entry: KeptEntry


class Recalled:
    """What the sessions of a batch's distilled saves had been handed."""

    def __init__(self, fingerprints: Mapping[tuple[UUID, UUID], frozenset[bytes]]) -> None:
        self._fingerprints = fingerprints

    def is_echo(self, event: SaveRequested, fingerprint: bytes) -> bool:
        """Whether the entry is a lesson that its own session had recalled."""
        if event.origin is not Origin.DISTILL:
            return False
        key = (event.organization_uuid, event.session_uuid)
        return fingerprint in self._fingerprints.get(key, _NOTHING)


async def recalled_by(connection: Connection, events: Sequence[SaveRequested]) -> Recalled:
    """What was handed out, as far as it is recorded by now; only distilled saves are looked up."""
    distilled = {(e.organization_uuid, e.session_uuid) for e in events if e.origin is Origin.DISTILL}
    return Recalled(await evidence.recalled_fingerprints(connection, distilled))


def held_for(event: SaveRequested, text: str) -> QuarantineReason | None:
    """Why a text is held back when it is new; only distilled lessons ever are."""
    return quarantine_reason(text) if event.origin is Origin.DISTILL else None


async def leave_evidence(
    connection: Connection,
    lessons: Sequence[KeptLesson],
    rows: Rows,
    recalled: Recalled,
) -> None:
    """Write into the history of each entry which session taught it, and how."""
    for row in chain.from_iterable(of_scope.values() for of_scope in rows.values()):
        if row.inserted and row.quarantine_reason is not None:
            HELD.labels(row.quarantine_reason).inc()
    await evidence.record(connection, tuple(_evidence(lessons, rows, recalled)))


def _evidence(lessons: Sequence[KeptLesson], rows: Rows, recalled: Recalled) -> Iterator[NewEvidence]:
    for lesson in lessons:
        event, fingerprint = lesson.event, lesson.entry.fingerprint
        yield NewEvidence(
            organization_uuid=event.organization_uuid,
            memory_id=rows[lesson.scope][fingerprint].memory_id,
            event_id=event.event_id,
            session_uuid=event.session_uuid,
            kind=EvidenceKind.ECHO if recalled.is_echo(event, fingerprint) else EvidenceKind.OWN,
        )
