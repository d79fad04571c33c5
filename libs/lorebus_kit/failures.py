"""Noting on a run that its event was dead-lettered, so that its status stays true."""

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

from lorebus_contracts.events import Event
from lorebus_contracts.workflows import State, WorkflowType
from lorebus_kit.dead_letters import RejectedError, error_text
from lorebus_kit.subscription import FailureRecorder
from lorebus_store import runs
from lorebus_store.database import Connection
from lorebus_store.run_rows import DEAD_LETTERED, Failure


def failure_recorder(
    workflow_type: WorkflowType, run_id: Callable[[Event], UUID] = lambda event: event.event_id
) -> FailureRecorder:
    """For consumers whose events are runs of one type; a run has the event's id unless `run_id` says otherwise.

    For a rejected event only a run that was accepted for it fails: nothing is written for an organization that nobody
    knows, nor on the run of a session that the event is not about.
    """

    async def record(connection: Connection, event: Event, error: Exception) -> None:
        await runs.fail(
            connection,
            organization_uuid=event.organization_uuid,
            run_id=run_id(event),
            run_type=workflow_type,
            agent_config_uuid=event.agent_config_uuid,
            session_uuid=getattr(event, "session_uuid", None),
            created_at=event.occurred_at,
            failure=_failure(error),
            only_accepted=isinstance(error, RejectedError),
        )

    return record


def _failure(error: Exception) -> Failure:
    return Failure(
        error=error_text(error),
        error_type=type(error).__name__,
        failed_at=datetime.now(UTC),
        failed_at_state=State.RUN,
        failed_layer="consumer",
        failed_step="run",
        failure_reason=DEAD_LETTERED,
    )
