"""Starting a workflow run by its type's name, with the inputs that its schema says.

The rule that must not break: the organization of the inputs is the key's own, and session and agent config belong to
it and to each other; what does not is refused or not there, and nothing is started.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TypeVar, assert_never

from lorebus_contracts import wire
from lorebus_contracts.events import Event, Origin
from lorebus_contracts.http_answers import RunSnapshot
from lorebus_contracts.wire import Fault, WireError
from lorebus_contracts.workflows import (
    DistillInput,
    DistillOutput,
    LoadInput,
    PruneInput,
    SaveInput,
    ScopeInput,
    State,
    WorkflowType,
)
from lorebus_domain import policy
from lorebus_domain.distilling import DistillSkip, distill_gate
from lorebus_gateway.authentication import Organization
from lorebus_gateway.errors import ForbiddenError
from lorebus_gateway.idempotency import Once
from lorebus_gateway.known_scopes import caller_of, claims_of, find_session_of_config
from lorebus_gateway.recalling import Recalling, RecallWish
from lorebus_gateway.run_status import finished_snapshot, initiated_snapshot, run_snapshot
from lorebus_gateway.saving import Saving
from lorebus_kit.acceptance import initiated_run
from lorebus_kit.run_ids import RunIds, distill_run_id, to_milliseconds
from lorebus_kit.tokens import SessionClaims
from lorebus_store import runs, settings
from lorebus_store.acting import Tenants
from lorebus_store.database import Connection, Database
from lorebus_store.run_rows import FinishedRun, InitiatedRun, Step
from lorebus_store.sessions import Session

InputT = TypeVar("InputT", bound=ScopeInput)


class Starting:
    """Starts runs of all four types; the answer is the run's snapshot as it was accepted."""

    def __init__(self, database: Database, *, saving: Saving, recalling: Recalling, run_ids: RunIds) -> None:
        self._database = database
        self._saving = saving
        self._recalling = recalling
        self._run_ids = run_ids

    async def start(
        self,
        asker: Organization,
        kind: WorkflowType,
        data: Mapping[str, object],
        *,
        now: datetime,
        once: Once | None = None,
    ) -> RunSnapshot:
        """Start a run of the type; a load has ended when this comes back. A repeat of `once` is the same run.

        Raises:
            WireError: the inputs are not what the type's schema says.
            ForbiddenError: they name another organization, or a principal that is not the session's.
            NotFoundError: there is no such agent config, or no such session of it.
            TransientError: the database is away, or neither bus nor store took the run.
        """
        match kind:
            case WorkflowType.MEMORY_LOAD:
                return await self._load(_inputs(LoadInput, data, asker), to_milliseconds(now))
            case WorkflowType.MEMORY_SAVE:
                return await self._save(_inputs(SaveInput, data, asker), now, once)
            case WorkflowType.MEMORY_PRUNE:
                return await self._prune(_inputs(PruneInput, data, asker), now, once)
            case WorkflowType.MEMORY_DISTILL:
                return await self._distill(_inputs(DistillInput, data, asker), now)
            case _:
                assert_never(kind)

    async def _load(self, asked: LoadInput, now: datetime) -> RunSnapshot:
        session = await self._session(asked)
        wish = RecallWish(cue=asked.cue, strategy=asked.strategy, top_k=asked.top_k, format=asked.format)
        answer = await self._recalling.recall(session, wish, now=now)
        run_id = answer.recall_id or self._run_ids.make(
            asked.organization_uuid, WorkflowType.MEMORY_LOAD, now=now
        )
        return RunSnapshot(
            workflow_id=run_id,
            workflow_type=WorkflowType.MEMORY_LOAD,
            state_name=State.COMPLETED,
            is_terminal=True,
            state_data=asked.model_dump(mode="json")
            | answer.model_dump(mode="json", exclude={"explanation"}),
            created_at=now,
            updated_at=now,
        )

    async def _save(self, asked: SaveInput, now: datetime, once: Once | None) -> RunSnapshot:
        session = await self._session(asked)
        event = await self._saving.save(
            session,
            asked.entries,
            origin=Origin.WORKFLOW,
            now=now,
            principal_ref=asked.principal_ref,
            once=once,
        )
        return _accepted(event)

    async def _prune(self, asked: PruneInput, now: datetime, once: Once | None) -> RunSnapshot:
        event = await self._saving.prune(
            asked.organization_uuid,
            asked.agent_config_uuid,
            max_entries=asked.max_entries,
            now=now,
            once=once,
        )
        return _accepted(event)

    async def _distill(self, asked: DistillInput, now: datetime) -> RunSnapshot:
        """A session is distilled once, when it ends: show that run, or record why there is none."""
        async with self._database.begin(Tenants.of(asked.organization_uuid)) as connection:
            run_id = distill_run_id(asked.session_uuid)
            run = await runs.get_run(connection, asked.organization_uuid, run_id)
            if run is not None and run.agent_config_uuid == asked.agent_config_uuid:
                return run_snapshot(run)
            session = await _session_asked_for(connection, asked)
            reason = await _reason_not_to_distill(connection, session)
            if reason is None:
                return _accepted_distill(session, now)
            skipped = self._skipped_distill(session, reason, now)
            await runs.record_finished(connection, [skipped])
        return finished_snapshot(skipped)

    def _skipped_distill(self, session: Session, reason: DistillSkip, now: datetime) -> FinishedRun:
        """A run of its own: the session's one distill must still be free when it ends."""
        run_id = self._run_ids.make(session.organization_uuid, WorkflowType.MEMORY_DISTILL, now=now)
        return FinishedRun(
            organization_uuid=session.organization_uuid,
            id=run_id,
            type=WorkflowType.MEMORY_DISTILL,
            state_name=State.COMPLETED,
            state_data=DistillOutput(skipped_reason=reason).model_dump_json(exclude_none=True),
            agent_config_uuid=session.agent_config_uuid,
            session_uuid=session.session_uuid,
            created_at=now,
            finished_at=now,
            steps=(Step(State.RUN, now), Step(State.COMPLETED, now)),
        )

    async def _session(self, asked: LoadInput | SaveInput) -> SessionClaims:
        async with self._database.read(Tenants.of(asked.organization_uuid)) as connection:
            return claims_of(await _session_asked_for(connection, asked))


def _inputs(model: type[InputT], data: Mapping[str, object], asker: Organization) -> InputT:
    """The inputs as the type's model has them, for the asker's own organization."""
    try:
        inputs = wire.validate(model, data)
    except WireError as error:
        raise WireError(*(_within_initial_data(fault) for fault in error.faults)) from error
    if inputs.organization_uuid != asker.organization_uuid:
        raise ForbiddenError
    return inputs


async def _session_asked_for(connection: Connection, asked: LoadInput | SaveInput | DistillInput) -> Session:
    return await find_session_of_config(
        connection, asked.organization_uuid, asked.agent_config_uuid, asked.session_uuid
    )


def _within_initial_data(fault: Fault) -> Fault:
    return Fault(f"initial_data.{fault.path}" if fault.path else "initial_data", fault.problem)


def _accepted(event: Event) -> RunSnapshot:
    run = initiated_run(event, b"")
    if run is None:
        raise AssertionError(f"a {type(event).__name__} starts a run")
    return initiated_snapshot(run)


def _accepted_distill(session: Session, now: datetime) -> RunSnapshot:
    """The distill of a session whose end was accepted and is on its way to the consumer."""
    return initiated_snapshot(
        InitiatedRun(
            organization_uuid=session.organization_uuid,
            id=distill_run_id(session.session_uuid),
            type=WorkflowType.MEMORY_DISTILL,
            agent_config_uuid=session.agent_config_uuid,
            session_uuid=session.session_uuid,
            pending_input=b"",
            created_at=now,
        )
    )


async def _reason_not_to_distill(connection: Connection, session: Session) -> DistillSkip | None:
    pair = (session.organization_uuid, session.agent_config_uuid)
    known = (await settings.load_settings(connection, [pair]))[pair]
    if known.organization is None or known.config is None:
        return DistillSkip.UNKNOWN_AGENT_CONFIG
    return distill_gate(
        organization_enabled=known.organization.memory_enabled,
        config_enabled=known.config.memory_enabled,
        write_enabled=known.config.memory_write_enabled,
        outcome=session.outcome or "",
        # How many steps there were is known to the session's end only.
        step_count=policy.DISTILL_MIN_STEPS,
        caller=caller_of(session),
    )
