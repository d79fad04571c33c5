"""The workers: claim a distill that is due, ask the provider between transactions, finish in one.

The rules that must not break: an attempt is counted when the run is claimed, so that a run that kills its worker each
time ends after five; whoever lost its lease changes nothing; lessons are saved under an event id that follows from the
session, so that a distill done twice is counted once.
"""

import asyncio
import logging
from datetime import UTC, datetime
from typing import Final

from lorebus_contracts.events import EntryBody, Origin, Provenance, SaveRequested, SessionEnded
from lorebus_contracts.wire import WireError, parse
from lorebus_contracts.workflows import DistillOutput, State, WorkflowType
from lorebus_distill.providers import Distilled, Provider
from lorebus_distill.settings import DistillSettings
from lorebus_domain import policy
from lorebus_domain.distilling import DistillSkip, PreparedSession, ToolCall, prepare
from lorebus_kit.backoff import Backoff
from lorebus_kit.emitting import outbox_row
from lorebus_kit.relay import Relay
from lorebus_kit.run_ids import distill_save_id
from lorebus_store import leases, outbox, runs
from lorebus_store.database import Database
from lorebus_store.errors import PermanentError, TransientError
from lorebus_store.leases import ClaimedRun
from lorebus_store.run_rows import Failure, InitiatedRun

POLL_SECONDS: Final = 1.0
LEASE_MARGIN_SECONDS: Final = 30.0
"""How much longer than its deadline an attempt's lease is: time to finish the run."""
_log: Final = logging.getLogger(__name__)


class DistillWorkers:
    """Up to `distill_concurrency` distills at once."""

    def __init__(
        self, settings: DistillSettings, database: Database, relay: Relay, provider: Provider
    ) -> None:
        self._settings = settings
        self._database = database
        self._relay = relay
        self._provider = provider
        self._woken = asyncio.Event()
        self._running: dict[asyncio.Task[None], ClaimedRun] = {}

    def wake(self) -> None:
        """A distill may be due."""
        self._woken.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Claim and distil until `stop` is set, then let what runs finish; its lease covers what does not.

        Raises:
            TransientError: PostgreSQL is away; begin again later.
        """
        try:
            while not stop.is_set():
                self._woken.clear()
                claimed = await self._claim()
                for run in claimed:
                    self._start(run)
                if not claimed:
                    await self._wait(stop)
        finally:
            if self._running:
                await asyncio.wait(self._running, timeout=self._settings.distill_deadline_seconds)

    async def _claim(self) -> tuple[ClaimedRun, ...]:
        """What may be begun now: nothing beside a run that may be what ended its workers before."""
        free = self._settings.distill_concurrency - len(self._running)
        if free <= 0 or any(run.is_suspect for run in self._running.values()):
            return ()
        async with self._database.begin() as connection:
            return await leases.claim_due(
                connection,
                limit=free,
                lease_seconds=self._settings.distill_deadline_seconds + LEASE_MARGIN_SECONDS,
                per_organization=self._settings.distill_concurrency_per_organization,
                alone=not self._running,
            )

    def _start(self, run: ClaimedRun) -> None:
        task = asyncio.create_task(self._distil(run), name=f"distil:{run.id}")
        self._running[task] = run
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task)
        self._woken.set()
        if not task.cancelled() and task.exception() is not None:
            _log.error("distil left to its lease", exc_info=task.exception())

    async def _wait(self, stop: asyncio.Event) -> None:
        waits = {asyncio.create_task(event.wait()) for event in (self._woken, stop)}
        try:
            await asyncio.wait(waits, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _distil(self, run: ClaimedRun) -> None:
        if run.attempts > policy.DISTILL_MAX_ATTEMPTS:
            await self._fail(run, "TooManyAttempts", f"given up after {policy.DISTILL_MAX_ATTEMPTS} attempts")
            return
        try:
            event = parse(SessionEnded, run.pending_input)
            async with asyncio.timeout(self._settings.distill_deadline_seconds):
                # Redacting a hostile trace takes seconds, in which the consumer beside must not be silent.
                prepared = await asyncio.to_thread(_prepared, event)
                distilled = await self._distilled(prepared)
        except (PermanentError, WireError) as error:
            await self._fail(run, type(error).__name__, str(error))
        except (TransientError, TimeoutError) as error:
            await self._again(run, error)
        else:
            await self._finish(run, event, distilled)

    async def _distilled(self, prepared: PreparedSession) -> Distilled:
        """The provider's lessons; where there is nothing to learn from, it is not asked."""
        if prepared.input.is_blank:
            return Distilled((), self._provider.name, self._provider.version)
        return await self._provider.distil(prepared.input)

    async def _finish(self, run: ClaimedRun, event: SessionEnded, distilled: Distilled) -> None:
        now = datetime.now(UTC)
        save = _save(run, event, distilled, now) if distilled.lessons else None
        output = DistillOutput(
            save_workflow_id=None if save is None else save.event_id,
            lessons=len(distilled.lessons),
            skipped_reason=DistillSkip.NO_LESSONS if save is None else None,
            provider=distilled.provider,
            provider_version=distilled.version,
        )
        async with self._database.begin() as connection:
            mine = await leases.finish_leased(
                connection,
                organization_uuid=run.organization_uuid,
                run_id=run.id,
                token=run.token,
                state_name=State.COMPLETED,
                state_data=output.model_dump_json(exclude_none=True),
                at=now,
            )
            if mine and save is not None:
                await runs.insert_initiated(connection, _initiated(save))
                await outbox.add(connection, [outbox_row(save)])
        self._relay.wake()
        _log.info(
            "distilled",
            extra={"workflow_id": str(run.id), "lessons": len(distilled.lessons), "lease_kept": mine},
        )

    async def _again(self, run: ClaimedRun, error: Exception) -> None:
        if run.attempts >= policy.DISTILL_MAX_ATTEMPTS:
            await self._fail(run, type(error).__name__, str(error) or "the provider did not answer in time")
            return
        delay = Backoff(tries=run.attempts).next_seconds()
        async with self._database.begin() as connection:
            await leases.retry_later(
                connection,
                organization_uuid=run.organization_uuid,
                run_id=run.id,
                token=run.token,
                due_in_seconds=delay,
            )
        _log.warning(
            "distil tried again later",
            extra={"workflow_id": str(run.id), "error_type": type(error).__name__, "delay_seconds": delay},
        )

    async def _fail(self, run: ClaimedRun, error_type: str, error: str) -> None:
        now = datetime.now(UTC)
        failure = Failure(
            error=error,
            error_type=error_type,
            failed_at=now,
            failed_at_state=State.RUN,
            failed_layer="provider",
            failed_step="distil",
            failure_reason=error,
        )
        async with self._database.begin() as connection:
            await leases.finish_leased(
                connection,
                organization_uuid=run.organization_uuid,
                run_id=run.id,
                token=run.token,
                state_name=State.FAILED,
                state_data=failure.as_state_data(),
                at=now,
            )
        _log.error("distil failed", extra={"workflow_id": str(run.id), "error_type": error_type})


def _prepared(event: SessionEnded) -> PreparedSession:
    trace = [ToolCall(call.tool, call.input, call.output, call.is_error) for call in event.trace]
    return prepare(outcome=event.outcome, task=event.task, trace=trace)


def _save(run: ClaimedRun, event: SessionEnded, distilled: Distilled, now: datetime) -> SaveRequested:
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
            provider=distilled.provider, version=distilled.version, distill_workflow_id=run.id
        ),
    )


def _initiated(save: SaveRequested) -> InitiatedRun:
    return InitiatedRun(
        organization_uuid=save.organization_uuid,
        id=save.event_id,
        type=WorkflowType.MEMORY_SAVE,
        agent_config_uuid=save.agent_config_uuid,
        session_uuid=save.session_uuid,
        pending_input=save.model_dump_json().encode(),
        created_at=save.occurred_at,
    )
