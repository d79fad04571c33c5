"""Ending a run as its consumer would, without one."""

from datetime import UTC, datetime
from uuid import UUID

from lorebus_contracts.workflows import State, WorkflowType
from lorebus_store import runs
from lorebus_store.run_rows import FinishedRun, Step
from tests.support.gateways import Asking


async def finish(
    gateway: Asking,
    kind: WorkflowType,
    run_id: UUID,
    config: UUID,
    *,
    session: UUID | None = None,
    state: State = State.COMPLETED,
    outputs: str = "{}",
    created_at: datetime | None = None,
) -> None:
    """Record that the run ended now in this state, with these outputs (a JSON object as text)."""
    now = datetime.now(UTC)
    run = FinishedRun(
        organization_uuid=gateway.organization_uuid,
        id=run_id,
        type=kind,
        state_name=state,
        state_data=outputs,
        agent_config_uuid=config,
        session_uuid=session,
        created_at=created_at or now,
        finished_at=now,
        steps=(Step(State.RUN, now), Step(state, now)),
    )
    async with gateway.database.begin() as connection:
        await runs.record_finished(connection, [run])
