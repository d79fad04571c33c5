"""Taking away all that is kept of a subject, wholly and in one transaction.

The rule that must not break: the organization is locked (`locks.lock_organization`) from before the first look until
the transaction ends. So what is counted is exact, and nothing of the subject is kept behind its back.
"""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_contracts.http_memory import SubjectKind
from lorebus_contracts.workflows import State, WorkflowType
from lorebus_store import idempotency, memories, recalls
from lorebus_store.erasures import Counts, Subject
from lorebus_store.run_rows import Step, step_json
from lorebus_store.statements import Statement

ERASED: Final = "erased"
"""The reason of what is skipped because its subject was erased."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Whose memory to erase, in one agent config or (None) in all; a session has one of its own."""

    organization_uuid: UUID
    subject: Subject
    agent_config_uuid: UUID | None = None

    @property
    def session_uuid(self) -> UUID | None:
        """The session that is erased, if it is one."""
        return UUID(self.subject.name) if self.subject.kind is SubjectKind.SESSION else None


class GoneEntry(NamedTuple):
    """An entry that was erased; `state` says whether it was counted as memory."""

    agent_config_uuid: UUID
    id: UUID
    state: str


class Erased(NamedTuple):
    """What is gone."""

    entries: tuple[GoneEntry, ...]
    counts: Counts


_OF: Final = {
    SubjectKind.PRINCIPAL: """organization_uuid = :organization_uuid AND principal_ref = CAST(:name AS text)
        AND (CAST(:agent_config_uuid AS uuid) IS NULL OR agent_config_uuid = :agent_config_uuid)""",
    SubjectKind.SESSION: "organization_uuid = :organization_uuid AND session_uuid = CAST(:session_uuid AS uuid)",
}
# Entries have no index of sessions, which would slow down every save: a session's entries are looked for in the agent
# configs that it is known to have worked for, and only of one that nobody knows in all.
_CONFIGS_OF_SESSION: Final = Statement(
    """
    SELECT agent_config_uuid FROM lorebus.sessions
    WHERE organization_uuid = :organization_uuid AND session_uuid = :session_uuid
    UNION
    SELECT agent_config_uuid FROM lorebus.workflow_runs
    WHERE organization_uuid = :organization_uuid AND session_uuid = :session_uuid
    """
)
_CONFIGS: Final = Statement(
    "SELECT agent_config_uuid FROM lorebus.agent_configs WHERE organization_uuid = :organization_uuid"
)


_DELETE_ENTRIES: Final = {
    kind: Statement(
        f"""
        DELETE FROM lorebus.memories WHERE {of_subject} AND agent_config_uuid = ANY(CAST(:configs AS uuid[]))
        RETURNING agent_config_uuid, id, state
        """
    )
    for kind, of_subject in _OF.items()
}
# What a session stood behind is told by its saves, because evidence is found by its entry alone.
_DELETE_EVIDENCE: Final = Statement(
    """
    WITH witnessed AS (
        SELECT CAST(found #>> '{}' AS uuid) AS memory_id FROM lorebus.workflow_runs r
        CROSS JOIN LATERAL jsonb_path_query(r.state_data, '$.results[*].memory_id') AS found
        WHERE r.organization_uuid = :organization_uuid AND r.session_uuid = CAST(:session_uuid AS uuid)
    )
    DELETE FROM lorebus.memory_evidence e WHERE e.organization_uuid = :organization_uuid AND (
        e.memory_id = ANY(CAST(:memories AS uuid[]))
        OR (e.memory_id = ANY(ARRAY(SELECT memory_id FROM witnessed)) AND e.session_uuid = :session_uuid)
    )
    """
)
_DELETE_RECALLS: Final = {
    kind: Statement(
        f"""
        WITH gone AS (
            DELETE FROM lorebus.recalls WHERE {of_subject} RETURNING recall_id
        ), lines AS (
            DELETE FROM lorebus.recall_entries e USING gone
            WHERE e.organization_uuid = :organization_uuid AND e.recall_id = gone.recall_id RETURNING 1
        )
        SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM lines)
        """
    )
    for kind, of_subject in _OF.items()
}
# A principal's session may go on: it is then as one of which nobody has told whose it is.
_FORGET_SESSIONS: Final = {
    SubjectKind.PRINCIPAL: Statement(
        f"""
        UPDATE lorebus.sessions SET caller_kind = NULL, principal_ref = NULL, task = NULL, registered_at = NULL
        WHERE {_OF[SubjectKind.PRINCIPAL]} RETURNING session_uuid
        """
    ),
    SubjectKind.SESSION: Statement(
        f"DELETE FROM lorebus.sessions WHERE {_OF[SubjectKind.SESSION]} RETURNING session_uuid"
    ),
}
_WAITING_RUNS: Final = Statement(
    """
    SELECT id, session_uuid = ANY(CAST(:sessions AS uuid[])), pending_input FROM lorebus.workflow_runs
    WHERE organization_uuid = :organization_uuid AND type = ANY(CAST(:types AS text[]))
        AND state_name IN ('initiated', 'run') AND pending_input IS NOT NULL
        AND (session_uuid = ANY(CAST(:sessions AS uuid[])) OR position(CAST(:name AS bytea) IN pending_input) > 0)
    """
)
_END_RUNS: Final = Statement(
    """
    UPDATE lorebus.workflow_runs SET
        state_name = 'completed',
        state_data = state_data || CAST(:output AS jsonb) || CASE type WHEN :save_type
            THEN '{"saved": 0, "reinforced": 0, "skipped": 0}' ELSE CAST('{}' AS jsonb) END,
        history = history || CASE state_name WHEN 'initiated' THEN CAST(:run_step AS jsonb)
            ELSE CAST('[]' AS jsonb) END
            || CAST(:last_step AS jsonb),
        pending_input = NULL, due_at = NULL, lease_token = NULL, lease_until = NULL,
        updated_at = :at, finished_at = :at
    WHERE organization_uuid = :organization_uuid AND id = ANY(CAST(:ids AS uuid[]))
        AND state_name IN ('initiated', 'run')
    """
)
_WAITING_EVENTS: Final = Statement(
    """
    SELECT id, payload FROM lorebus.outbox
    WHERE organization_uuid = :organization_uuid AND position(CAST(:name AS bytea) IN payload) > 0
    """
)
_DELETE_EVENTS: Final = Statement(
    """
    DELETE FROM lorebus.outbox
    WHERE organization_uuid = :organization_uuid AND id = ANY(CAST(:ids AS bigint[]))
    """
)


async def erase(conn: AsyncConnection, wish: Wish, *, at: datetime) -> Erased:
    """Take away all that is kept of the subject; the caller holds `locks.lock_organization`, and records the erasure.

    Entries, held or not, with what stood behind them; its recalls; its lines in other recalls, whose receipts keep the
    ids; the caller and the task of its sessions; the inputs of runs that have not ended, which end here; its events in
    the outbox; and every answer that is kept for the organization, because any may hold a text.
    """
    values = _values(wish)
    entries = await _erased_entries(conn, wish, values)
    ids = [entry.id for entry in entries]
    recall_count, own_lines = await _DELETE_RECALLS[wish.subject.kind].row(conn, values)
    sessions = [row[0] for row in await _FORGET_SESSIONS[wish.subject.kind].rows(conn, values)]
    counts = Counts(
        entries=len(entries),
        evidence=await _DELETE_EVIDENCE.run(conn, values | {"memories": ids}),
        recalls=recall_count,
        recall_entries=own_lines + await recalls.forget_entries(conn, wish.organization_uuid, ids),
        sessions=len(sessions),
        run_inputs=await _end_runs(conn, wish, sessions, at=at),
        outbox=await _delete_events(conn, wish),
        answers=await idempotency.forget_answers(conn, wish.organization_uuid),
    )
    await memories.add_to_counters(conn, _uncounted(wish, entries))
    return Erased(entries, counts)


async def _erased_entries(
    conn: AsyncConnection, wish: Wish, values: dict[str, object]
) -> tuple[GoneEntry, ...]:
    configs = await _configs(conn, wish, values)
    rows = await _DELETE_ENTRIES[wish.subject.kind].rows(conn, values | {"configs": configs})
    return tuple(map(GoneEntry._make, rows))


async def _configs(conn: AsyncConnection, wish: Wish, values: dict[str, object]) -> list[UUID]:
    """The agent configs in which entries of the subject may be."""
    if wish.agent_config_uuid is not None:
        return [wish.agent_config_uuid]
    rows = [] if wish.session_uuid is None else await _CONFIGS_OF_SESSION.rows(conn, values)
    return [row[0] for row in rows or await _CONFIGS.rows(conn, values)]


async def _end_runs(conn: AsyncConnection, wish: Wish, sessions: Collection[UUID], *, at: datetime) -> int:
    asked = {
        "organization_uuid": wish.organization_uuid,
        "types": [kind.value for kind in WorkflowType],
        "sessions": list(sessions) if wish.session_uuid is None else [wish.session_uuid],
        "name": _in_json(wish),
    }
    rows = await _WAITING_RUNS.rows(conn, asked)
    ended = {
        "organization_uuid": wish.organization_uuid,
        "ids": [row[0] for row in rows if row[1] or _tells_of(row[2], wish)],
        "output": json.dumps({"skipped_reason": ERASED}),
        "save_type": WorkflowType.MEMORY_SAVE,
        "run_step": f"[{step_json(Step(State.RUN, at))}]",
        "last_step": f"[{step_json(Step(State.COMPLETED, at))}]",
        "at": at,
    }
    return await _END_RUNS.run(conn, ended)


async def _delete_events(conn: AsyncConnection, wish: Wish) -> int:
    asked = {"organization_uuid": wish.organization_uuid, "name": _in_json(wish)}
    rows = await _WAITING_EVENTS.rows(conn, asked)
    ids = [row[0] for row in rows if _tells_of(row[1], wish)]
    return await _DELETE_EVENTS.run(conn, {"organization_uuid": wish.organization_uuid, "ids": ids})


def _tells_of(event: bytes, wish: Wish) -> bool:
    """Whether an event, as its JSON, is about the subject."""
    told = json.loads(event)
    if wish.session_uuid is not None:
        return bool(told.get("session_uuid") == wish.subject.name)
    if wish.agent_config_uuid is not None and told.get("agent_config_uuid") != str(wish.agent_config_uuid):
        return False
    caller = told.get("caller") or {}
    return wish.subject.name in {told.get("principal_ref"), caller.get("ref")}


def _in_json(wish: Wish) -> bytes:
    """How the subject's name stands in an event's bytes."""
    return json.dumps(wish.subject.name, ensure_ascii=False).encode()


def _uncounted(wish: Wish, entries: Sequence[GoneEntry]) -> dict[tuple[UUID, UUID], int]:
    gone = Counter(entry.agent_config_uuid for entry in entries if entry.state == "active")
    return {(wish.organization_uuid, config): -count for config, count in gone.items()}


def _values(wish: Wish) -> dict[str, object]:
    return {
        "organization_uuid": wish.organization_uuid,
        "agent_config_uuid": wish.agent_config_uuid,
        "name": wish.subject.name,
        "session_uuid": wish.session_uuid,
    }
