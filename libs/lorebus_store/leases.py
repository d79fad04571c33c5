"""Distill runs that wait for a worker: claimed by one at a time, under a lease that may be lost.

The rule that must not break: whoever lost its lease changes nothing any more. Every change names the token of its
claim, and the attempt is counted at the claim, so that a worker that dies has used one up (ARCHITECTURE.md, "Distill").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_contracts.workflows import State, WorkflowType
from lorebus_store.run_rows import DEAD_LETTERED, RunKey, Step, history_json, step_json
from lorebus_store.runs import pending_inputs
from lorebus_store.statements import Statement

SUSPECT_FROM_ATTEMPTS: Final = 2
"""One lost lease is an ordinary restart."""


@dataclass(frozen=True, slots=True)
class DistillStart:
    """A distill that begins: with `pending_input` it is due now, without it ended, `state_data` saying why."""

    organization_uuid: UUID
    id: UUID
    agent_config_uuid: UUID
    session_uuid: UUID
    created_at: datetime
    at: datetime
    pending_input: bytes | None
    state_data: str = "{}"
    traceparent: str | None = None
    """The trace in which it was caused, as W3C writes it."""


class ClaimedRun(NamedTuple):
    """A run that is the caller's until its lease ends; `attempts` counts this one.

    A suspect has had two workers at least, and nobody heard of the last one again: it may be what ended them.
    """

    organization_uuid: UUID
    id: UUID
    agent_config_uuid: UUID
    session_uuid: UUID
    pending_input: bytes
    attempts: int
    token: UUID
    created_at: datetime
    is_suspect: bool
    model_profile: str | None
    """The profile that its organization names now."""

    traceparent: str | None = None
    """The trace in which it was caused, as W3C writes it."""


_ANY_NUMBER: Final[Mapping[str, int]] = {}
_START: Final = Statement(
    f"""
    INSERT INTO lorebus.workflow_runs AS r
        (organization_uuid, id, type, state_name, state_data, history, pending_input, agent_config_uuid, session_uuid,
        created_at, updated_at, due_at, finished_at, traceparent)
    SELECT organization_uuid, id, '{WorkflowType.MEMORY_DISTILL}',
        CASE WHEN pending_input IS NULL THEN 'completed' ELSE 'run' END,
        CAST(state_data AS jsonb), CAST(history AS jsonb), pending_input, agent_config_uuid, session_uuid,
        created_at, at, CASE WHEN pending_input IS NOT NULL THEN now() END,
        CASE WHEN pending_input IS NULL THEN at END, traceparent
    FROM unnest(
        CAST(:organizations AS uuid[]), CAST(:ids AS uuid[]), CAST(:configs AS uuid[]), CAST(:sessions AS uuid[]),
        CAST(:inputs AS bytea[]), CAST(:state_data AS text[]), CAST(:histories AS text[]),
        CAST(:created AS timestamptz[]), CAST(:times AS timestamptz[]), CAST(:traceparents AS text[])
    ) AS s (organization_uuid, id, agent_config_uuid, session_uuid, pending_input, state_data, history,
        created_at, at, traceparent)
    ON CONFLICT (organization_uuid, id) DO UPDATE SET
        state_name = excluded.state_name,
        state_data = excluded.state_data,
        history = r.history || (excluded.history - 0),
        pending_input = excluded.pending_input,
        updated_at = excluded.updated_at,
        due_at = excluded.due_at,
        finished_at = excluded.finished_at,
        traceparent = excluded.traceparent
    WHERE r.state_name = 'initiated'
        OR (r.state_name = 'failed' AND r.state_data ->> 'failure_reason' = '{DEAD_LETTERED}')
    RETURNING organization_uuid, id
    """
)
# Claims are made one after the other: two at once would each count the organization's leases without the other's.
_ONE_CLAIM_AT_A_TIME: Final = Statement(
    "SELECT pg_advisory_xact_lock(hashtextextended('lorebus.claim_due', 0))"
)
# A lease moves `due_at` to its end, so that one index range holds what is due, lost leases included. Organizations
# are walked by skipping through the index, however many runs each has waiting.
_CLAIM: Final = Statement(
    """
    WITH RECURSIVE waiting AS (
        (
            SELECT organization_uuid FROM lorebus.workflow_runs
            WHERE state_name = 'run' ORDER BY organization_uuid LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT r.organization_uuid FROM lorebus.workflow_runs r
            WHERE r.state_name = 'run' AND r.organization_uuid > waiting.organization_uuid
            ORDER BY r.organization_uuid LIMIT 1
        )
        FROM waiting WHERE waiting.organization_uuid IS NOT NULL
    ), ready AS (
        SELECT first.organization_uuid, first.id, first.due_at, first.is_suspect, o.model_profile, asked.most,
            row_number() OVER (PARTITION BY o.model_profile ORDER BY first.due_at, first.id) AS place_of_profile
        FROM waiting
        LEFT JOIN lorebus.organizations o USING (organization_uuid)
        LEFT JOIN unnest(CAST(:profiles AS text[]), CAST(:most AS bigint[])) AS asked (profile, most)
            ON asked.profile = o.model_profile
        CROSS JOIN LATERAL (
            SELECT r.organization_uuid, r.id, r.due_at,
                r.lease_token IS NOT NULL AND r.attempts >= :suspect_from AS is_suspect
            FROM lorebus.workflow_runs r
            WHERE r.organization_uuid = waiting.organization_uuid AND r.state_name = 'run' AND r.due_at <= now()
            ORDER BY r.due_at, r.id
            LIMIT greatest(0, CAST(:per_organization AS bigint) - (
                SELECT count(*) FROM lorebus.workflow_runs busy
                WHERE busy.organization_uuid = waiting.organization_uuid AND busy.state_name = 'run'
                    AND busy.due_at > now() AND busy.lease_until > now()
            ))
        ) AS first
        WHERE asked.most IS NULL OR asked.most > 0
    ), due AS (
        SELECT organization_uuid, id, is_suspect, model_profile, row_number() OVER (ORDER BY due_at, id) AS place
        FROM ready WHERE most IS NULL OR place_of_profile <= most
        ORDER BY due_at, id LIMIT :limit
    ), free AS (
        SELECT r.organization_uuid, r.id, due.is_suspect, due.model_profile
        FROM lorebus.workflow_runs r JOIN due USING (organization_uuid, id)
        WHERE r.state_name = 'run' AND r.due_at <= now() AND (
            due.place < coalesce((SELECT min(place) FROM due WHERE is_suspect), due.place + 1)
            OR (due.place = 1 AND CAST(:alone AS boolean))
        )
        FOR NO KEY UPDATE OF r SKIP LOCKED
    )
    UPDATE lorebus.workflow_runs r SET
        attempts = r.attempts + 1,
        lease_token = :token,
        lease_until = now() + make_interval(secs => :lease_seconds),
        due_at = now() + make_interval(secs => :lease_seconds),
        updated_at = now()
    FROM free WHERE r.organization_uuid = free.organization_uuid AND r.id = free.id
    RETURNING r.organization_uuid, r.id, r.agent_config_uuid, r.session_uuid, r.attempts, r.lease_token, r.created_at,
        free.is_suspect, free.model_profile, r.traceparent
    """
)
_MINE: Final = (
    "organization_uuid = :organization_uuid AND id = :id AND lease_token = :token AND state_name = 'run'"
)
_FINISH: Final = Statement(
    f"""
    UPDATE lorebus.workflow_runs SET
        state_name = :state_name,
        state_data = CAST(:state_data AS jsonb),
        history = history || CAST(:step AS jsonb),
        pending_input = NULL, due_at = NULL, lease_token = NULL, lease_until = NULL,
        updated_at = :at, finished_at = :at
    WHERE {_MINE}
    """
)
_RETRY: Final = Statement(
    f"""
    UPDATE lorebus.workflow_runs SET
        due_at = now() + make_interval(secs => :due_in_seconds),
        attempts = attempts - CASE WHEN CAST(:attempted AS boolean) THEN 0 ELSE 1 END,
        state_data = coalesce(CAST(:state_data AS jsonb), state_data),
        lease_token = NULL, lease_until = NULL, updated_at = now()
    WHERE {_MINE}
    """
)
_EXTEND: Final = Statement(
    f"""
    UPDATE lorebus.workflow_runs SET
        lease_until = now() + make_interval(secs => :lease_seconds),
        due_at = now() + make_interval(secs => :lease_seconds)
    WHERE {_MINE}
    """
)


_BEGIN_AGAIN: Final = Statement(
    f"""
    UPDATE lorebus.workflow_runs SET
        state_name = '{State.RUN}', state_data = '{{}}', history = history || CAST(:step AS jsonb),
        pending_input = :pending_input, due_at = now(), attempts = 0,
        lease_token = NULL, lease_until = NULL, updated_at = :at, finished_at = NULL
    WHERE organization_uuid = :organization_uuid AND id = :id AND type = '{WorkflowType.MEMORY_DISTILL}'
        AND state_name = '{State.FAILED}'
    """
)


async def begin_again(
    conn: AsyncConnection, organization_uuid: UUID, run_id: UUID, *, pending_input: bytes, at: datetime
) -> bool:
    """Make a distill that failed due now, with its event; False when it is not failed (any more).

    It saved nothing, and what it will save has an id that follows from the session.
    """
    values = {
        "organization_uuid": organization_uuid,
        "id": run_id,
        "pending_input": pending_input,
        "step": f"[{step_json(Step(State.RUN, at))}]",
        "at": at,
    }
    return await _change(conn, _BEGIN_AGAIN, values)


async def start_distills(conn: AsyncConnection, rows: Sequence[DistillStart]) -> set[RunKey]:
    """Begin distills that are new, were only accepted, or whose event was dead-lettered; the keys of those that began.

    A session is distilled once: any other run that has begun or ended is left as it is (SPEC.md section 4).
    """
    if not rows:
        return set()
    ordered = sorted(rows, key=lambda row: (row.organization_uuid, row.id))
    values = {
        "organizations": [row.organization_uuid for row in ordered],
        "ids": [row.id for row in ordered],
        "configs": [row.agent_config_uuid for row in ordered],
        "sessions": [row.session_uuid for row in ordered],
        "inputs": [row.pending_input for row in ordered],
        "state_data": [row.state_data for row in ordered],
        "histories": [history_json(row.created_at, _first_steps(row)) for row in ordered],
        "created": [row.created_at for row in ordered],
        "times": [row.at for row in ordered],
        "traceparents": [row.traceparent for row in ordered],
    }
    return {(row[0], row[1]) for row in await _START.rows(conn, values)}


async def claim_due(
    conn: AsyncConnection,
    *,
    limit: int,
    lease_seconds: float,
    per_organization: int,
    per_profile: Mapping[str, int] = _ANY_NUMBER,
    alone: bool = True,
) -> tuple[ClaimedRun, ...]:
    """Take up to `limit` runs that are due, or whose lease was lost, longest due first.

    A suspect is taken by itself, when its turn has come and by a caller that is `alone`, which has no other run in
    hand: whatever ends its worker ends no other run's. Nothing behind it is taken before that.

    No organization has more than `per_organization` runs leased at once, whoever leases them. Of the runs whose
    organization names a profile of `per_profile`, at most so many are taken. This is a queue of the system
    (`SystemRole.HOUSEKEEPING`): the runs may be any organization's, for which alone the transaction then goes on.
    """
    await _ONE_CLAIM_AT_A_TIME.rows(conn)
    values = {
        "limit": limit,
        "lease_seconds": lease_seconds,
        "per_organization": per_organization,
        "profiles": list(per_profile),
        "most": list(per_profile.values()),
        "alone": alone,
        "suspect_from": SUSPECT_FROM_ATTEMPTS,
        "token": uuid4(),
    }
    rows = await _CLAIM.rows(conn, values)
    inputs = await pending_inputs(conn, [(row[0], row[1]) for row in rows])
    return tuple(ClaimedRun._make((*row[:4], inputs[row[0], row[1]], *row[4:])) for row in rows)


async def finish_leased(
    conn: AsyncConnection,
    *,
    organization_uuid: UUID,
    run_id: UUID,
    token: UUID,
    state_name: State,
    state_data: str,
    at: datetime,
) -> bool:
    """End a claimed run with its output, a JSON object; False when the lease was lost: then do nothing else."""
    values = {
        "state_name": state_name,
        "state_data": state_data,
        "step": step_json(Step(state_name, at)),
        "at": at,
    }
    return await _change(conn, _FINISH, _mine(organization_uuid, run_id, token) | values)


async def retry_later(
    conn: AsyncConnection,
    *,
    organization_uuid: UUID,
    run_id: UUID,
    token: UUID,
    due_in_seconds: float,
    attempted: bool = True,
    state_data: str | None = None,
) -> bool:
    """Give a claimed run back, due again after this time; False when the lease was lost.

    Where nothing was attempted the claim is not counted as an attempt. `state_data`, a JSON object, says what the
    run waits for; left out, it stays.
    """
    values = {"due_in_seconds": due_in_seconds, "attempted": attempted, "state_data": state_data}
    return await _change(conn, _RETRY, _mine(organization_uuid, run_id, token) | values)


async def extend_lease(
    conn: AsyncConnection, *, organization_uuid: UUID, run_id: UUID, token: UUID, lease_seconds: float
) -> bool:
    """Keep a claimed run for this long from now; False when the lease was lost."""
    mine = _mine(organization_uuid, run_id, token)
    return await _change(conn, _EXTEND, mine | {"lease_seconds": lease_seconds})


async def _change(conn: AsyncConnection, statement: Statement, values: dict[str, object]) -> bool:
    return await statement.run(conn, values) == 1


def _mine(organization_uuid: UUID, run_id: UUID, token: UUID) -> dict[str, object]:
    return {"organization_uuid": organization_uuid, "id": run_id, "token": token}


def _first_steps(row: DistillStart) -> tuple[Step, ...]:
    running = Step(State.RUN, row.at)
    return (running,) if row.pending_input is not None else (running, Step(State.COMPLETED, row.at))
