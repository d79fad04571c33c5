"""Recalls: what each answered load handed out and what it left out, for receipts and labels.

The rule that must not break: what a recall handed out is recorded once, whole, and told the same ever after. Its label
is its session's, joined when it is read, so that a late rating needs no rewriting (SPEC.md section 5, "Labels"). No row
points at an entry that was deleted or erased: what the receipt tells of it is then kept with the recall.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from struct import iter_unpack
from typing import Any, Final, NamedTuple, Self
from uuid import UUID

from asyncpg.pgproto import pgproto
from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_store import accesses
from lorebus_store.accesses import Access
from lorebus_store.statements import Statement

MOST_ROWS: Final = 10_000
"""Entries written by one statement: what it takes in memory, here and in PostgreSQL, is bounded by that."""


class HandedOut(NamedTuple):
    """An entry that was handed out; the score parts are None where the strategy does not score."""

    memory_id: UUID
    rank: int
    importance: float
    score: float | None = None
    relevance: float | None = None
    recency: float | None = None


@dataclass(frozen=True, slots=True)
class EntryColumns:
    """Entries that were handed out, as the columns of an `HandedOut`; none of them stands twice."""

    memory_ids: Sequence[UUID] = ()
    ranks: Sequence[int] = ()
    importances: Sequence[float] = ()
    scores: Sequence[float | None] = ()
    relevances: Sequence[float | None] = ()
    recencies: Sequence[float | None] = ()

    @classmethod
    def of(cls, entries: Iterable[HandedOut]) -> Self:
        """These entries; of one that stands twice the first."""
        once: dict[UUID, HandedOut] = {}
        for entry in entries:
            once.setdefault(entry.memory_id, entry)
        return cls(*zip(*once.values(), strict=True))

    @classmethod
    def ranked(cls, packed_ids: bytes, importances: Sequence[float], parts: Sequence[float]) -> Self:
        """Entries in their order, ids of 16 bytes each; score, relevance and recency of one after the other, or none.

        One that stands twice keeps its first place.
        """
        ids = [pgproto.UUID(one) for (one,) in iter_unpack("16s", packed_ids)]
        unscored = (None,) * len(ids)
        told = cls(
            ids,
            range(1, len(ids) + 1),
            importances,
            parts[0::3] or unscored,
            parts[1::3] or unscored,
            parts[2::3] or unscored,
        )
        return told if len(set(ids)) == len(ids) else cls.of(told.entries())

    def entries(self) -> Iterator[HandedOut]:
        """One by one."""
        columns = (
            self.memory_ids,
            self.ranks,
            self.importances,
            self.scores,
            self.relevances,
            self.recencies,
        )
        return map(HandedOut._make, zip(*columns, strict=True))


@dataclass(frozen=True, slots=True)
class RecordedRecall:
    """An answered load; `passed_over` is JSON as text, whose form is the sender's."""

    organization_uuid: UUID
    recall_id: UUID
    pack_id: UUID | None
    session_uuid: UUID
    agent_config_uuid: UUID
    caller_kind: str
    principal_ref: str | None
    requested_strategy: str
    strategy: str
    cue: str
    top_k: int
    budget_used_chars: int
    occurred_at: datetime
    entries: EntryColumns
    passed_over: str = "[]"


class ReceiptEntry(NamedTuple):
    """An entry that was handed out, best first; `text` is None when the entry is gone since."""

    memory_id: UUID
    rank: int
    score: float | None
    relevance: float | None
    importance: float
    recency: float | None
    text: str | None


@dataclass(frozen=True, slots=True)
class Receipt:
    """Everything about a recall; `outcome` and `quality_score` are its session's, None while there is none."""

    organization_uuid: UUID
    recall_id: UUID
    pack_id: UUID | None
    session_uuid: UUID
    agent_config_uuid: UUID
    caller_kind: str
    principal_ref: str | None
    requested_strategy: str
    strategy: str
    cue: str
    top_k: int
    budget_used_chars: int
    occurred_at: datetime
    passed_over: Sequence[Mapping[str, Any]] | Mapping[str, Any]
    outcome: str | None
    ended_at: datetime | None
    ended_event_id: UUID | None
    quality_score: float | None
    rated_at: datetime | None
    rated_event_id: UUID | None
    entries: tuple[ReceiptEntry, ...]


# What a receipt tells of entries `e` that are gone, as an array of JSON objects.
_AS_GONE: Final = """jsonb_agg(jsonb_build_object(
    'memory_id', e.memory_id, 'rank', e.rank, 'score', e.score, 'relevance', e.relevance,
    'importance', e.importance, 'recency', e.recency
) ORDER BY e.rank)"""
_RECORD: Final = Statement(
    """
    INSERT INTO lorebus.recalls
        (organization_uuid, recall_id, pack_id, session_uuid, agent_config_uuid, caller_kind, principal_ref,
        requested_strategy, strategy, cue, top_k, budget_used_chars, entry_count, occurred_at, passed_over)
    SELECT organization_uuid, recall_id, pack_id, session_uuid, agent_config_uuid, caller_kind, principal_ref,
        requested_strategy, strategy, cue, top_k, budget_used_chars, entry_count, occurred_at,
        CAST(passed_over AS jsonb)
    FROM unnest(
        CAST(:organizations AS uuid[]), CAST(:recalls AS uuid[]), CAST(:packs AS uuid[]),
        CAST(:sessions AS uuid[]), CAST(:configs AS uuid[]), CAST(:kinds AS text[]), CAST(:principals AS text[]),
        CAST(:requested AS text[]), CAST(:strategies AS text[]), CAST(:cues AS text[]), CAST(:top_ks AS integer[]),
        CAST(:budgets AS integer[]), CAST(:entry_counts AS integer[]), CAST(:times AS timestamptz[]),
        CAST(:passed_over AS text[])
    ) AS r (organization_uuid, recall_id, pack_id, session_uuid, agent_config_uuid, caller_kind, principal_ref,
        requested_strategy, strategy, cue, top_k, budget_used_chars, entry_count, occurred_at, passed_over)
    ON CONFLICT (organization_uuid, recall_id) DO NOTHING
    RETURNING organization_uuid, recall_id
    """
)
# Their recall is new, so that nobody else writes rows of it.
_RECORD_ENTRIES: Final = Statement(
    """
    INSERT INTO lorebus.recall_entries
        (organization_uuid, recall_id, memory_id, rank, score, relevance, importance, recency)
    SELECT * FROM unnest(
        CAST(:organizations AS uuid[]), CAST(:recalls AS uuid[]), CAST(:memories AS uuid[]),
        CAST(:ranks AS integer[]), CAST(:scores AS double precision[]), CAST(:relevances AS double precision[]),
        CAST(:importances AS double precision[]), CAST(:recencies AS double precision[])
    )
    """
)
_RECORD_GONE: Final = Statement(
    """
    UPDATE lorebus.recalls r SET gone_entries = CAST(told.entries AS jsonb)
    FROM unnest(CAST(:organizations AS uuid[]), CAST(:recalls AS uuid[]), CAST(:entries AS text[]))
        AS told (organization_uuid, recall_id, entries)
    WHERE r.organization_uuid = told.organization_uuid AND r.recall_id = told.recall_id
    """
)
_RECEIPT: Final = Statement(
    """
    SELECT r.organization_uuid, r.recall_id, r.pack_id, r.session_uuid, r.agent_config_uuid, r.caller_kind,
        r.principal_ref, r.requested_strategy, r.strategy, r.cue, r.top_k, r.budget_used_chars, r.occurred_at,
        r.passed_over, s.outcome, s.ended_at, s.ended_event_id, s.quality_score, s.rated_at, s.rated_event_id,
        r.gone_entries
    FROM lorebus.recalls r
    LEFT JOIN lorebus.sessions s ON s.organization_uuid = r.organization_uuid AND s.session_uuid = r.session_uuid
    WHERE r.organization_uuid = :organization_uuid AND (r.recall_id = :id OR r.pack_id = :id)
    ORDER BY (r.recall_id = :id) DESC LIMIT 1
    """
)
_ENTRIES: Final = Statement(
    """
    SELECT e.memory_id, e.rank, e.score, e.relevance, e.importance, e.recency, m.text
    FROM lorebus.recall_entries e
    LEFT JOIN lorebus.memories m ON m.organization_uuid = e.organization_uuid AND m.id = e.memory_id
    WHERE e.organization_uuid = :organization_uuid AND e.recall_id = :recall_id
    ORDER BY e.rank
    """
)


_FORGET_ENTRIES: Final = Statement(
    f"""
    WITH gone AS (
        DELETE FROM lorebus.recall_entries
        WHERE organization_uuid = :organization_uuid AND memory_id = ANY(CAST(:memories AS uuid[]))
        RETURNING recall_id, memory_id, rank, score, relevance, importance, recency
    ), kept AS (
        UPDATE lorebus.recalls r SET gone_entries = r.gone_entries || told.entries
        FROM (SELECT e.recall_id, {_AS_GONE} AS entries FROM gone e GROUP BY e.recall_id) AS told
        WHERE r.organization_uuid = :organization_uuid AND r.recall_id = told.recall_id
    )
    SELECT count(*) FROM gone
    """
)


async def record(conn: AsyncConnection, recalls: Sequence[RecordedRecall]) -> set[UUID]:
    """Keep recalls with their entries, each once, and count what they handed out; the ids that were not known before.

    An entry that is gone by now gets no row. Whoever deletes one does it alone: before that, or after the transaction.
    """
    if not recalls:
        return set()
    by_key = {(recall.organization_uuid, recall.recall_id): recall for recall in recalls}
    ordered = [recall for _, recall in sorted(by_key.items())]
    rows = await _RECORD.rows(conn, _recall_values(ordered))
    new = [by_key[organization, recall] for organization, recall in rows]
    there = await accesses.count(conn, map(_access, new))
    kept = [(recall, _there(recall.entries, there[recall.organization_uuid])) for recall in new]
    for portion in _portions(kept):
        await _RECORD_ENTRIES.run(conn, _entry_values(portion))
    await _record_gone(conn, [recall for recall, entries in kept if entries is not recall.entries], there)
    return {recall.recall_id for recall in new}


async def receipt(conn: AsyncConnection, organization_uuid: UUID, recall_or_pack_id: UUID) -> Receipt | None:
    """The receipt of a recall, by its own id or its pack's; None when the organization has no such recall.

    Source: SPEC.md section 5, "Receipts".
    """
    asked = {"organization_uuid": organization_uuid, "id": recall_or_pack_id}
    row = await _RECEIPT.row(conn, asked)
    if row is None:
        return None
    key = {"organization_uuid": organization_uuid, "recall_id": row[1]}
    entries = [ReceiptEntry._make(entry) for entry in await _ENTRIES.rows(conn, key)]
    *told, gone = row
    entries += map(_gone_entry, gone)
    return Receipt(*(*told, tuple(sorted(entries, key=lambda entry: entry.rank))))


async def forget_entries(conn: AsyncConnection, organization_uuid: UUID, memory_ids: Collection[UUID]) -> int:
    """Take entries that are deleted out of all recalls, whose receipts still tell of them; how many rows went."""
    values = {"organization_uuid": organization_uuid, "memories": list(memory_ids)}
    rows: int = await _FORGET_ENTRIES.value(conn, values)
    return rows


def _access(recall: RecordedRecall) -> Access:
    return Access(
        recall.organization_uuid, recall.agent_config_uuid, recall.entries.memory_ids, recall.occurred_at
    )


def _there(handed_out: EntryColumns, there: set[UUID]) -> EntryColumns:
    """Those that are there, which are all but for a race with a delete."""
    if there.issuperset(handed_out.memory_ids):
        return handed_out
    return EntryColumns.of(entry for entry in handed_out.entries() if entry.memory_id in there)


def _portions(
    kept: Iterable[tuple[RecordedRecall, EntryColumns]],
) -> Iterator[list[tuple[RecordedRecall, EntryColumns]]]:
    """The recalls, so many at a time as have `MOST_ROWS` entries together."""
    portion: list[tuple[RecordedRecall, EntryColumns]] = []
    rows = 0
    for recall, entries in kept:
        if portion and rows + len(entries.memory_ids) > MOST_ROWS:
            yield portion
            portion, rows = [], 0
        portion.append((recall, entries))
        rows += len(entries.memory_ids)
    if rows:
        yield portion


async def _record_gone(
    conn: AsyncConnection, recalls: Sequence[RecordedRecall], there: Mapping[UUID, set[UUID]]
) -> None:
    """Keep what receipts tell of entries that are gone."""
    if not recalls:
        return
    values = {
        "organizations": [recall.organization_uuid for recall in recalls],
        "recalls": [recall.recall_id for recall in recalls],
        "entries": [
            json.dumps(
                [
                    {**entry._asdict(), "memory_id": str(entry.memory_id)}
                    for entry in recall.entries.entries()
                    if entry.memory_id not in there[recall.organization_uuid]
                ]
            )
            for recall in recalls
        ],
    }
    await _RECORD_GONE.run(conn, values)


def _gone_entry(told: Mapping[str, Any]) -> ReceiptEntry:
    return ReceiptEntry(**{**told, "memory_id": UUID(told["memory_id"])}, text=None)


def _recall_values(recalls: Sequence[RecordedRecall]) -> dict[str, object]:
    return {
        "organizations": [recall.organization_uuid for recall in recalls],
        "recalls": [recall.recall_id for recall in recalls],
        "packs": [recall.pack_id for recall in recalls],
        "sessions": [recall.session_uuid for recall in recalls],
        "configs": [recall.agent_config_uuid for recall in recalls],
        "kinds": [recall.caller_kind for recall in recalls],
        "principals": [recall.principal_ref for recall in recalls],
        "requested": [recall.requested_strategy for recall in recalls],
        "strategies": [recall.strategy for recall in recalls],
        "cues": [recall.cue for recall in recalls],
        "top_ks": [recall.top_k for recall in recalls],
        "budgets": [recall.budget_used_chars for recall in recalls],
        "entry_counts": [len(recall.entries.memory_ids) for recall in recalls],
        "times": [recall.occurred_at for recall in recalls],
        "passed_over": [recall.passed_over for recall in recalls],
    }


def _entry_values(kept: Sequence[tuple[RecordedRecall, EntryColumns]]) -> dict[str, object]:
    every = [entries for _, entries in kept]
    return {
        "organizations": [recall.organization_uuid for recall, entries in kept for _ in entries.memory_ids],
        "recalls": [recall.recall_id for recall, entries in kept for _ in entries.memory_ids],
        "memories": _joined(entries.memory_ids for entries in every),
        "ranks": _joined(entries.ranks for entries in every),
        "scores": _joined(entries.scores for entries in every),
        "relevances": _joined(entries.relevances for entries in every),
        "importances": _joined(entries.importances for entries in every),
        "recencies": _joined(entries.recencies for entries in every),
    }


def _joined(columns: Iterable[Sequence[object]]) -> list[object]:
    return list(chain.from_iterable(columns))
