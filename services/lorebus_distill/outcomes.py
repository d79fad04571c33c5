"""What a distill that ended puts out: its run's output, and the save of its lessons.

The rule that must not break: the save's id follows from the session, so that a distill done twice is counted once.
"""

from datetime import datetime

from lorebus_contracts.events import EntryBody, Origin, Provenance, SaveRequested, SessionEnded
from lorebus_contracts.workflows import DistillOutput, State, WorkflowType
from lorebus_domain.distilling import DistillSkip, PreparedSession
from lorebus_kit.providers.errors import FailureReason
from lorebus_kit.providers.port import Distilled
from lorebus_kit.run_ids import distill_save_id
from lorebus_store.leases import ClaimedRun
from lorebus_store.run_rows import Failure, InitiatedRun


def finished_output(
    distilled: Distilled, prepared: PreparedSession, save: SaveRequested | None
) -> DistillOutput:
    """What the run of a session says that was distilled, whether it taught anything or not."""
    cost = distilled.cost
    return DistillOutput(
        save_workflow_id=None if save is None else save.event_id,
        lessons=len(distilled.lessons),
        skipped_reason=DistillSkip.NO_LESSONS if save is None else None,
        provider=distilled.provider,
        provider_version=distilled.version,
        model=None if cost is None else cost.model,
        prompt_version=distilled.prompt_version,
        calls=None if cost is None else cost.calls,
        prompt_tokens=None if cost is None else cost.prompt_tokens,
        completion_tokens=None if cost is None else cost.completion_tokens,
        milliseconds=None if cost is None else cost.milliseconds,
        price=None if cost is None else cost.price,
        dropped=distilled.dropped or None,
        folded=distilled.folded or None,
        redacted=dict(prepared.redacted) or None,
        dropped_calls=prepared.dropped_calls or None,
    )


def save_of(
    run: ClaimedRun, event: SessionEnded, distilled: Distilled, now: datetime
) -> SaveRequested | None:
    """The save of the lessons; None where there are none."""
    if not distilled.lessons:
        return None
    cost = distilled.cost
    return SaveRequested(
        event_id=distill_save_id(run.session_uuid),
        occurred_at=now,
        organization_uuid=run.organization_uuid,
        agent_config_uuid=run.agent_config_uuid,
        session_uuid=run.session_uuid,
        caller=event.caller,
        principal_ref=event.caller.principal_ref(),
        entries=tuple(
            EntryBody(text=lesson.text, importance=lesson.importance) for lesson in distilled.lessons
        ),
        origin=Origin.DISTILL,
        provenance=Provenance(
            provider=distilled.provider,
            version=distilled.version,
            distill_workflow_id=run.id,
            model=None if cost is None else cost.model,
            prompt_version=distilled.prompt_version,
            prompt_tokens=None if cost is None else cost.prompt_tokens,
            completion_tokens=None if cost is None else cost.completion_tokens,
            milliseconds=None if cost is None else cost.milliseconds,
        ),
    )


def initiated(save: SaveRequested) -> InitiatedRun:
    """The run of a save that was asked for."""
    return InitiatedRun(
        organization_uuid=save.organization_uuid,
        id=save.event_id,
        type=WorkflowType.MEMORY_SAVE,
        agent_config_uuid=save.agent_config_uuid,
        session_uuid=save.session_uuid,
        pending_input=save.model_dump_json().encode(),
        created_at=save.occurred_at,
    )


def failure_of(error: Exception, reason: FailureReason, now: datetime) -> Failure:
    """The failure that a run is left with."""
    return Failure(
        error=str(error) or "the provider did not answer in time",
        error_type=type(error).__name__,
        failed_at=now,
        failed_at_state=State.RUN,
        failed_layer="provider",
        failed_step="distil",
        failure_reason=reason,
    )
