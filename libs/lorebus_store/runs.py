"""Workflow runs: their status, which is truthful and durable, and the claim that makes an effect happen once.

The rule that must not break: a completed run is never touched again, and a run's row changes in the same transaction
as its effect. Whoever gets fewer runs back than it gave was second, and must not have an effect for the others
(ARCHITECTURE.md, "Idempotent effect"). Runs that wait for a worker are in `leases`.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_contracts.workflows import State, WorkflowType
from lorebus_store.acting import Tenants, narrow
from lorebus_store.run_rows import (
    Failure,
    FinishedRun,
    InitiatedRun,
    Run,
    RunKey,
    StaleRun,
    Step,
    history_json,
    run_of,
)
from lorebus_store.statements import Statement

_RUN: Final = ", ".join(Run._fields)
_KNOWN: Final = Statement(
    """
    SELECT r.organization_uuid, r.id, r.state_name FROM lorebus.workflow_runs r
    JOIN unnest(CAST(:organizations AS uuid[]), CAST(:ids AS uuid[])) AS asked (organization_uuid, id)
        USING (organization_uuid, id)
    """
)
# The history of a run that is new begins with `initiated`; one that is there has that step already (`- 0`).
_RECORD_FINISHED: Final = Statement(
    """
    INSERT INTO lorebus.workflow_runs AS r
        (organization_uuid, id, type, state_name, state_data, history, agent_config_uuid, session_uuid, created_at,
        updated_at, finished_at)
    SELECT organization_uuid, id, type, state_name, CAST(state_data AS jsonb), CAST(history AS jsonb),
        agent_config_uuid, session_uuid, created_at, finished_at, finished_at
    FROM unnest(
        CAST(:organizations AS uuid[]), CAST(:ids AS uuid[]), CAST(:types AS text[]), CAST(:states AS text[]),
        CAST(:state_data AS text[]), CAST(:histories AS text[]), CAST(:configs AS uuid[]), CAST(:sessions AS uuid[]),
        CAST(:created AS timestamptz[]), CAST(:finished AS timestamptz[])
    ) AS f (organization_uuid, id, type, state_name, state_data, history, agent_config_uuid, session_uuid,
        created_at, finished_at)
    ON CONFLICT (organization_uuid, id) DO UPDATE SET
        state_name = excluded.state_name,
        state_data = excluded.state_data,
        history = r.history || (excluded.history - 0),
        pending_input = NULL,
        due_at = NULL,
        lease_token = NULL,
        lease_until = NULL,
        updated_at = excluded.updated_at,
        finished_at = excluded.finished_at
    WHERE r.state_name <> 'completed'
    RETURNING organization_uuid, id
    """
)
_INSERT_INITIATED: Final = Statement(
    """
    INSERT INTO lorebus.workflow_runs
        (organization_uuid, id, type, state_name, state_data, history, pending_input, agent_config_uuid, session_uuid,
        created_at)
    SELECT organization_uuid, id, type, 'initiated', CAST(state_data AS jsonb), CAST(history AS jsonb),
        pending_input, agent_config_uuid, session_uuid, created_at
    FROM unnest(
        CAST(:organizations AS uuid[]), CAST(:ids AS uuid[]), CAST(:types AS text[]), CAST(:state_data AS text[]),
        CAST(:histories AS text[]), CAST(:inputs AS bytea[]), CAST(:configs AS uuid[]), CAST(:sessions AS uuid[]),
        CAST(:created AS timestamptz[])
    ) AS i (organization_uuid, id, type, state_data, history, pending_input, agent_config_uuid, session_uuid,
        created_at)
    ON CONFLICT (organization_uuid, id) DO NOTHING
    RETURNING organization_uuid, id
    """
)
_FAIL: Final = Statement(
    """
    INSERT INTO lorebus.workflow_runs AS r
        (organization_uuid, id, type, state_name, state_data, history, agent_config_uuid, session_uuid, created_at,
        finished_at)
    VALUES (:organization_uuid, :id, :type, 'failed', CAST(:state_data AS jsonb),
        CAST(:history AS jsonb), :agent_config_uuid, :session_uuid, :created_at, :failed_at)
    ON CONFLICT (organization_uuid, id) DO UPDATE SET
        state_name = 'failed',
        state_data = r.state_data || excluded.state_data,
        history = r.history || (excluded.history - 0),
        pending_input = NULL,
        due_at = NULL,
        lease_token = NULL,
        lease_until = NULL,
        updated_at = now(),
        finished_at = excluded.finished_at
    WHERE r.state_name IN ('initiated', 'run')
    RETURNING id
    """
)
_FAIL_ACCEPTED: Final = Statement(
    """
    UPDATE lorebus.workflow_runs r SET
        state_name = 'failed',
        state_data = r.state_data || CAST(:state_data AS jsonb),
        history = r.history || (CAST(:history AS jsonb) - 0),
        pending_input = NULL,
        updated_at = now(),
        finished_at = :failed_at
    WHERE organization_uuid = :organization_uuid AND id = :id AND type = :type
        AND agent_config_uuid = :agent_config_uuid AND state_name = 'initiated'
    RETURNING id
    """
)
_GET: Final = Statement(
    f"SELECT {_RUN} FROM lorebus.workflow_runs WHERE organization_uuid = :organization_uuid AND id = :id"
)
_BY_SESSION: Final = Statement(
    f"""
    SELECT {_RUN} FROM lorebus.workflow_runs
    WHERE organization_uuid = :organization_uuid AND session_uuid = :session_uuid
    ORDER BY created_at DESC, id DESC LIMIT :limit
    """
)
# The last condition always holds; it names the index `workflow_runs_listed`.
_BY_TYPE: Final = Statement(
    f"""
    SELECT {_RUN} FROM lorebus.workflow_runs
    WHERE organization_uuid = :organization_uuid AND type = :type AND state_name = :state_name AND attempts >= 0
    ORDER BY created_at DESC, id DESC LIMIT :limit
    """
)
# While the outbox is behind, nothing is stale: the record is still on its way, and one more would only queue up.
# A run that was swept waits as long again as it has waited altogether: while its consumer is down for hours, each run
# is put on the bus a few times and not a few thousand times.
_SWEEP_STALE: Final = Statement(
    """
    WITH stale AS (
        SELECT organization_uuid, id FROM lorebus.workflow_runs
        WHERE state_name = 'initiated' AND updated_at < now() - CAST(:older_than AS interval)
            AND updated_at < now() - least(updated_at - created_at, interval '1 hour')
            AND NOT EXISTS (
                SELECT FROM (SELECT created_at FROM lorebus.outbox ORDER BY id LIMIT 1) AS oldest
                WHERE oldest.created_at < now() - CAST(:older_than AS interval)
            )
        ORDER BY updated_at LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE lorebus.workflow_runs r SET updated_at = now() FROM stale
    WHERE r.organization_uuid = stale.organization_uuid AND r.id = stale.id
    RETURNING r.organization_uuid, r.id, r.type, r.agent_config_uuid, r.session_uuid
    """
)
_INPUTS: Final = Statement(
    """
    SELECT r.organization_uuid, r.id, r.pending_input FROM lorebus.workflow_runs r
    JOIN unnest(CAST(:organizations AS uuid[]), CAST(:ids AS uuid[])) AS asked (organization_uuid, id)
        USING (organization_uuid, id)
    """
)


async def known_runs(conn: AsyncConnection, keys: Collection[RunKey]) -> Mapping[RunKey, State]:
    """The states of those runs that there are."""
    rows = await _KNOWN.rows(conn, {"organizations": [o for o, _ in keys], "ids": [i for _, i in keys]})
    return {(row[0], row[1]): State(row[2]) for row in rows}


async def record_finished(conn: AsyncConnection, rows: Sequence[FinishedRun]) -> set[RunKey]:
    """Write runs that ended, over whatever is there but `completed`; the keys of those that were written.

    A key that does not come back was completed before, by another consumer: its effect must not happen again.
    """
    if not rows:
        return set()
    ordered = sorted(rows, key=_key)
    values = {
        "organizations": [row.organization_uuid for row in ordered],
        "ids": [row.id for row in ordered],
        "types": [row.type for row in ordered],
        "states": [row.state_name for row in ordered],
        "state_data": [row.state_data for row in ordered],
        "histories": [history_json(row.created_at, row.steps) for row in ordered],
        "configs": [row.agent_config_uuid for row in ordered],
        "sessions": [row.session_uuid for row in ordered],
        "created": [row.created_at for row in ordered],
        "finished": [row.finished_at for row in ordered],
    }
    return {(row[0], row[1]) for row in await _RECORD_FINISHED.rows(conn, values)}


async def insert_initiated(conn: AsyncConnection, *runs: InitiatedRun) -> set[RunKey]:
    """Accept runs that are not there yet; the keys of those that were new."""
    ordered = sorted(runs, key=_key)
    values = {
        "organizations": [run.organization_uuid for run in ordered],
        "ids": [run.id for run in ordered],
        "types": [run.type for run in ordered],
        "state_data": [run.state_data for run in ordered],
        "histories": [history_json(run.created_at, ()) for run in ordered],
        "inputs": [run.pending_input for run in ordered],
        "configs": [run.agent_config_uuid for run in ordered],
        "sessions": [run.session_uuid for run in ordered],
        "created": [run.created_at for run in ordered],
    }
    return {(row[0], row[1]) for row in await _INSERT_INITIATED.rows(conn, values)}


async def fail(
    conn: AsyncConnection,
    *,
    organization_uuid: UUID,
    run_id: UUID,
    run_type: WorkflowType,
    agent_config_uuid: UUID,
    session_uuid: UUID | None,
    created_at: datetime,
    failure: Failure,
    only_accepted: bool = False,
) -> bool:
    """End a run, accepted before or unheard of, as failed; False when it had ended already.

    With `only_accepted`, only a run of this agent config that was accepted and that nobody has begun.
    """
    values = {
        "organization_uuid": organization_uuid,
        "id": run_id,
        "type": run_type,
        "state_data": failure.as_state_data(),
        "history": history_json(created_at, (Step(State.FAILED, failure.failed_at),)),
        "agent_config_uuid": agent_config_uuid,
        "session_uuid": session_uuid,
        "created_at": created_at,
        "failed_at": failure.failed_at,
    }
    statement = _FAIL_ACCEPTED if only_accepted else _FAIL
    return await statement.row(conn, values) is not None


async def get_run(conn: AsyncConnection, organization_uuid: UUID, run_id: UUID) -> Run | None:
    """The run; None when the organization has no such run. A load's run is its recall (`recalls.receipt`)."""
    row = await _GET.row(conn, {"organization_uuid": organization_uuid, "id": run_id})
    return None if row is None else run_of(row)


async def list_runs(
    conn: AsyncConnection, organization_uuid: UUID, *, run_type: WorkflowType, state_name: State, limit: int
) -> tuple[Run, ...]:
    """The organization's runs of one type and state, at most `limit`, newest first."""
    values = {
        "organization_uuid": organization_uuid,
        "type": run_type,
        "state_name": state_name,
        "limit": limit,
    }
    return tuple(map(run_of, await _BY_TYPE.rows(conn, values)))


async def runs_of_session(
    conn: AsyncConnection, organization_uuid: UUID, session_uuid: UUID, *, limit: int
) -> tuple[Run, ...]:
    """The runs that are about a session, at most `limit`, newest first."""
    values = {"organization_uuid": organization_uuid, "session_uuid": session_uuid, "limit": limit}
    return tuple(map(run_of, await _BY_SESSION.rows(conn, values)))


async def stale_initiated(conn: AsyncConnection, older_than: timedelta, limit: int) -> tuple[StaleRun, ...]:
    """Runs that have stayed `initiated` for longer than this, each given to one caller and not again so soon.

    None while the outbox is itself behind by that much: what is on its way is not lost. This is a queue of the
    system (`SystemRole.HOUSEKEEPING`): the runs may be any organization's, for which alone the transaction then
    goes on.
    """
    rows = await _SWEEP_STALE.rows(conn, {"older_than": older_than, "limit": limit})
    inputs = await pending_inputs(conn, [(row[0], row[1]) for row in rows])
    return tuple(
        StaleRun(org, run_id, WorkflowType(kind), config, session, inputs[org, run_id])
        for org, run_id, kind, config, session in rows
    )


async def pending_inputs(conn: AsyncConnection, keys: Collection[RunKey]) -> Mapping[RunKey, bytes]:
    """The inputs of runs that the system's own work took hold of, for whose organizations the transaction goes on."""
    if not keys:
        return {}
    await narrow(conn, Tenants.of_all(organization for organization, _ in keys))
    rows = await _INPUTS.rows(conn, {"organizations": [o for o, _ in keys], "ids": [i for _, i in keys]})
    return {(row[0], row[1]): row[2] for row in rows}


def _key(run: FinishedRun | InitiatedRun) -> RunKey:
    return (run.organization_uuid, run.id)
