"""Recalls: what each answered load handed out and what it left out, for receipts and labels.

The rule that must not break: what a recall handed out is recorded once, whole, and told the same ever after. Its label
is its session's, joined when it is read, so that a late rating needs no rewriting (SPEC.md section 5, "Labels"). No row
points at an entry that was deleted or erased: what the receipt tells of it is then kept with the recall.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_store.statements import Statement


@dataclass(frozen=True, slots=True)
class HandedOut:
    """An entry that was handed out; the score parts are None where the strategy does not score."""

    memory_id: UUID
    rank: int
    importance: float
    score: float | None = None
    relevance: float | None = None
    recency: float | None = None


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
    entries: Sequence[HandedOut]
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
# An entry that is gone by now gets no row.
_RECORD: Final = Statement(
    f"""
    WITH told AS MATERIALIZED (
        SELECT e.*, m.id IS NOT NULL AS is_there
        FROM unnest(
            CAST(:entry_organizations AS uuid[]), CAST(:entry_recalls AS uuid[]), CAST(:memories AS uuid[]),
            CAST(:ranks AS integer[]), CAST(:scores AS double precision[]), CAST(:relevances AS double precision[]),
            CAST(:importances AS double precision[]), CAST(:recencies AS double precision[])
        ) AS e (organization_uuid, recall_id, memory_id, rank, score, relevance, importance, recency)
        LEFT JOIN lorebus.memories m ON m.organization_uuid = e.organization_uuid AND m.id = e.memory_id
    ), gone AS (
        SELECT e.organization_uuid, e.recall_id, {_AS_GONE} AS entries FROM told e
        WHERE NOT e.is_there GROUP BY e.organization_uuid, e.recall_id
    ), recorded AS (
        INSERT INTO lorebus.recalls
            (organization_uuid, recall_id, pack_id, session_uuid, agent_config_uuid, caller_kind, principal_ref,
            requested_strategy, strategy, cue, top_k, budget_used_chars, entry_count, occurred_at, passed_over,
            gone_entries)
        SELECT organization_uuid, recall_id, pack_id, session_uuid, agent_config_uuid, caller_kind, principal_ref,
            requested_strategy, strategy, cue, top_k, budget_used_chars, entry_count, occurred_at,
            CAST(passed_over AS jsonb), coalesce(gone.entries, '[]')
        FROM unnest(
            CAST(:organizations AS uuid[]), CAST(:recalls AS uuid[]), CAST(:packs AS uuid[]),
            CAST(:sessions AS uuid[]), CAST(:configs AS uuid[]), CAST(:kinds AS text[]), CAST(:principals AS text[]),
            CAST(:requested AS text[]), CAST(:strategies AS text[]), CAST(:cues AS text[]), CAST(:top_ks AS integer[]),
            CAST(:budgets AS integer[]), CAST(:entry_counts AS integer[]), CAST(:times AS timestamptz[]),
            CAST(:passed_over AS text[])
        ) AS r (organization_uuid, recall_id, pack_id, session_uuid, agent_config_uuid, caller_kind, principal_ref,
            requested_strategy, strategy, cue, top_k, budget_used_chars, entry_count, occurred_at, passed_over)
        LEFT JOIN gone USING (organization_uuid, recall_id)
        ON CONFLICT (organization_uuid, recall_id) DO NOTHING
        RETURNING organization_uuid, recall_id
    ), entries AS (
        INSERT INTO lorebus.recall_entries
            (organization_uuid, recall_id, memory_id, rank, score, relevance, importance, recency)
        SELECT organization_uuid, recall_id, e.memory_id, e.rank, e.score, e.relevance, e.importance, e.recency
        FROM told e JOIN recorded USING (organization_uuid, recall_id) WHERE e.is_there
        ON CONFLICT DO NOTHING
    )
    SELECT organization_uuid, recall_id FROM recorded
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
    """Keep recalls with their entries, each once; the recall ids that were not known before."""
    if not recalls:
        return set()
    ordered = sorted(recalls, key=lambda recall: (recall.organization_uuid, recall.recall_id))
    rows = await _RECORD.rows(conn, _recall_values(ordered) | _entry_values(ordered))
    return {row[1] for row in rows}


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
        "entry_counts": [len(recall.entries) for recall in recalls],
        "times": [recall.occurred_at for recall in recalls],
        "passed_over": [recall.passed_over for recall in recalls],
    }


def _entry_values(recalls: Sequence[RecordedRecall]) -> dict[str, object]:
    rows = [(recall, entry) for recall in recalls for entry in recall.entries]
    return {
        "entry_organizations": [recall.organization_uuid for recall, _ in rows],
        "entry_recalls": [recall.recall_id for recall, _ in rows],
        "memories": [entry.memory_id for _, entry in rows],
        "ranks": [entry.rank for _, entry in rows],
        "scores": [entry.score for _, entry in rows],
        "relevances": [entry.relevance for _, entry in rows],
        "importances": [entry.importance for _, entry in rows],
        "recencies": [entry.recency for _, entry in rows],
    }
