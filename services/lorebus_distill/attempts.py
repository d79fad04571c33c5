"""One attempt at a claimed distill: prepare, ask the provider between transactions, finish in one.

The rules that must not break: whoever lost its lease changes nothing; what was no attempt, because no model was asked,
is not counted as one; and a run that waits says what it waits for.
"""

import asyncio
import logging
import random
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from lorebus_contracts.events import SessionEnded
from lorebus_contracts.wire import WireError, parse
from lorebus_contracts.workflows import DistillOutput, State, WorkflowType
from lorebus_distill.outcomes import failure_of, finished_output, initiated, save_of
from lorebus_distill.settings import DistillSettings
from lorebus_domain import policy
from lorebus_domain.distilling import DistillSkip, PreparedSession, ToolCall, prepare
from lorebus_domain.recalled_texts import RecalledTexts
from lorebus_kit import tracing
from lorebus_kit.backoff import Backoff
from lorebus_kit.emitting import outbox_row
from lorebus_kit.metrics import DISTILLED, REDACTED
from lorebus_kit.providers.errors import (
    FailureReason,
    NotAskedError,
    ProviderAwayError,
    ProviderRefusedError,
)
from lorebus_kit.providers.port import Distilled, Provider
from lorebus_kit.relay import Relay
from lorebus_store import evidence, leases, locks, outbox, runs
from lorebus_store.acting import Tenants
from lorebus_store.database import Database
from lorebus_store.errors import PermanentError, TransientError
from lorebus_store.leases import ClaimedRun

LEASE_MARGIN_SECONDS: Final = 30.0
"""How much longer than its deadline an attempt's lease is: time to finish the run."""
LONGEST_RETRY_SECONDS: Final = 600.0
DAY_START_SPREAD_SECONDS: Final = 600.0
"""Over how long those are spread that waited for the day's budget: they would all be due at midnight."""
_UNNAMED: Final = "none"
_log: Final = logging.getLogger(__name__)


class ProviderDirectory(Protocol):
    """Which provider an organization has."""

    def of(self, profile_name: str | None) -> Provider:
        """The provider of this name; without one, the built-in rules.

        Raises:
            ProviderRefusedError: there is no such profile.
        """


class Attempts:
    """Makes attempts, one at each call of `make`; any number at once."""

    def __init__(
        self, settings: DistillSettings, database: Database, relay: Relay, providers: ProviderDirectory
    ) -> None:
        self._settings = settings
        self._database = database
        self._relay = relay
        self._providers = providers

    @property
    def lease_seconds(self) -> float:
        """How long a run is claimed for before its provider is known."""
        return self._settings.distill_deadline_seconds + LEASE_MARGIN_SECONDS

    async def make(self, run: ClaimedRun) -> None:
        """Distil a run that was claimed, and end it or give it back.

        Raises:
            TransientError: PostgreSQL is away; the run's lease says when it is tried again.
        """
        told: tracing.Attributes = {"lorebus.workflow_id": str(run.id), "lorebus.attempt": run.attempts}
        with tracing.work(WorkflowType.MEMORY_DISTILL.value, told, caused_in=run.traceparent):
            await self._make(run)

    async def _make(self, run: ClaimedRun) -> None:
        if run.attempts > policy.DISTILL_MAX_ATTEMPTS:
            await self._fail(run, _GivenUpError(), FailureReason.TOO_MANY_ATTEMPTS)
            return
        try:
            event = parse(SessionEnded, run.pending_input)
            provider = self._providers.of(run.model_profile)
            if not await self._hold(run, provider):
                return
            recalled = await self._recalled(run)
            async with asyncio.timeout(self._deadline(provider)):
                # Redacting a hostile trace takes seconds, in which the consumer beside must not be silent.
                prepared = await asyncio.to_thread(_prepared, event, recalled)
                distilled = await _distilled(provider, prepared, run)
        except NotAskedError as error:
            await self._postpone(run, error)
        except (ProviderRefusedError, PermanentError, WireError) as error:
            await self._fail(run, error, _reason(error))
        except (TransientError, TimeoutError) as error:
            await self._again(run, error)
        else:
            await self._finish(run, event, prepared, distilled)

    def _deadline(self, provider: Provider) -> float:
        own = provider.deadline_seconds
        return self._settings.distill_deadline_seconds if own is None else own

    async def _hold(self, run: ClaimedRun, provider: Provider) -> bool:
        """Keep the run for as long as its provider may take; False when it is somebody else's by now."""
        lease_seconds = self._deadline(provider) + LEASE_MARGIN_SECONDS
        if lease_seconds <= self.lease_seconds:
            return True
        async with self._database.begin(Tenants.of(run.organization_uuid)) as connection:
            return await leases.extend_lease(
                connection,
                organization_uuid=run.organization_uuid,
                run_id=run.id,
                token=run.token,
                lease_seconds=lease_seconds,
            )

    async def _recalled(self, run: ClaimedRun) -> RecalledTexts:
        """What the session was handed, so that memories are not learnt again from themselves."""
        async with self._database.read(Tenants.of(run.organization_uuid)) as connection:
            texts = await evidence.recalled_texts(
                connection, run.organization_uuid, run.session_uuid, limit=policy.FULL_LIMIT
            )
        return RecalledTexts(texts)

    async def _finish(
        self, run: ClaimedRun, event: SessionEnded, prepared: PreparedSession, distilled: Distilled
    ) -> None:
        now = datetime.now(UTC)
        save = save_of(run, event, distilled, now)
        output = finished_output(distilled, prepared, save)
        async with self._database.begin(Tenants.of(run.organization_uuid)) as connection:
            # Either an erasure has taken the lease away, or it finds what is written here.
            await locks.share_organizations(connection, [run.organization_uuid])
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
                await runs.insert_initiated(connection, initiated(save))
                await outbox.add(connection, [outbox_row(save)])
        self._relay.wake()
        lessons = len(distilled.lessons)
        tracing.note({"lorebus.outcome": "finished", "lorebus.lessons": lessons, **_tokens(distilled)})
        for kind, count in prepared.redacted.items():
            REDACTED.labels(kind).inc(count)
        DISTILLED.labels(distilled.provider, "lessons" if save else "no_lessons").inc()
        _log.info(
            "distilled",
            extra={
                "workflow_id": str(run.id),
                "provider": distilled.provider,
                "lessons": lessons,
                "redacted": dict(prepared.redacted),
                "lease_kept": mine,
            },
        )

    async def _again(self, run: ClaimedRun, error: Exception) -> None:
        """Wait for the next attempt: as long as the endpoint asks for, or longer each time; give up after the last."""
        if run.attempts >= policy.DISTILL_MAX_ATTEMPTS:
            await self._fail(run, error, _reason(error))
            return
        asked_for = error.retry_after_seconds if isinstance(error, ProviderAwayError) else None
        waits = Backoff(self._settings.distill_retry_seconds, LONGEST_RETRY_SECONDS, tries=run.attempts - 1)
        delay = waits.next_seconds() if asked_for is None else _jittered(asked_for, asked_for / 10)
        await self._give_back(run, _reason(error), delay, attempted=True)

    async def _postpone(self, run: ClaimedRun, error: NotAskedError) -> None:
        """Wait without having made an attempt; what waits for a budget for days is skipped."""
        if error.reason is not FailureReason.OVER_BUDGET:
            delay = _jittered(error.due_in_seconds, error.due_in_seconds / 10)
            await self._give_back(run, error.reason, delay, attempted=False)
            return
        due_at = datetime.now(UTC) + timedelta(seconds=error.due_in_seconds)
        if due_at - run.created_at > timedelta(days=policy.DISTILL_BUDGET_WAIT_DAYS):
            await self._skip(run, DistillSkip.OVER_BUDGET)
            return
        delay = _jittered(error.due_in_seconds, DAY_START_SPREAD_SECONDS)
        await self._give_back(run, error.reason, delay, attempted=False)

    async def _give_back(
        self, run: ClaimedRun, reason: FailureReason, delay_seconds: float, *, attempted: bool
    ) -> None:
        async with self._database.begin(Tenants.of(run.organization_uuid)) as connection:
            await leases.retry_later(
                connection,
                organization_uuid=run.organization_uuid,
                run_id=run.id,
                token=run.token,
                due_in_seconds=delay_seconds,
                attempted=attempted,
                state_data=DistillOutput(waiting_for=reason).model_dump_json(exclude_defaults=True),
            )
        outcome = "retried" if attempted else "postponed"
        tracing.note({"lorebus.outcome": outcome, "lorebus.reason": reason})
        DISTILLED.labels(run.model_profile or _UNNAMED, outcome).inc()
        _log.warning(
            "distil tried again later",
            extra={"workflow_id": str(run.id), "waiting_for": reason, "delay_seconds": delay_seconds},
        )

    async def _skip(self, run: ClaimedRun, reason: DistillSkip) -> None:
        output = DistillOutput(skipped_reason=reason)
        await self._end(run, State.COMPLETED, output.model_dump_json(exclude_none=True))
        tracing.note({"lorebus.outcome": "skipped", "lorebus.reason": reason})
        DISTILLED.labels(run.model_profile or _UNNAMED, "skipped").inc()
        _log.warning("distil skipped", extra={"workflow_id": str(run.id), "reason": reason})

    async def _fail(self, run: ClaimedRun, error: Exception, reason: FailureReason) -> None:
        failure = failure_of(error, reason, datetime.now(UTC))
        await self._end(run, State.FAILED, failure.as_state_data())
        tracing.note({"lorebus.outcome": "failed", "lorebus.reason": reason})
        DISTILLED.labels(run.model_profile or _UNNAMED, "failed").inc()
        _log.error("distil failed", extra={"workflow_id": str(run.id), "reason": reason})

    async def _end(self, run: ClaimedRun, state: State, state_data: str) -> None:
        async with self._database.begin(Tenants.of(run.organization_uuid)) as connection:
            await leases.finish_leased(
                connection,
                organization_uuid=run.organization_uuid,
                run_id=run.id,
                token=run.token,
                state_name=state,
                state_data=state_data,
                at=datetime.now(UTC),
            )


class _GivenUpError(Exception):
    """The run was claimed more often than it may be; whoever claimed it before never came back."""

    def __str__(self) -> str:
        return f"given up after {policy.DISTILL_MAX_ATTEMPTS} attempts"


async def _distilled(provider: Provider, prepared: PreparedSession, run: ClaimedRun) -> Distilled:
    """The provider's lessons; where there is nothing to learn from, it is not asked."""
    if prepared.input.is_blank:
        return Distilled((), provider.name, provider.version)
    return await provider.distil(prepared.input, organization_uuid=run.organization_uuid)


def _prepared(event: SessionEnded, recalled: RecalledTexts) -> PreparedSession:
    trace = [ToolCall(call.tool, call.input, call.output, call.is_error) for call in event.trace]
    return prepare(outcome=event.outcome, task=event.task, trace=trace, recalled=recalled)


def _reason(error: Exception) -> FailureReason:
    if isinstance(error, ProviderRefusedError | ProviderAwayError):
        return error.reason
    if isinstance(error, WireError):
        return FailureReason.UNREADABLE_EVENT
    return FailureReason.MODEL_TIMEOUT if isinstance(error, TimeoutError) else FailureReason.PROVIDER_FAILED


def _tokens(distilled: Distilled) -> tracing.Attributes:
    """What a model counted, where one was asked."""
    cost = distilled.cost
    if cost is None:
        return {}
    return {
        "gen_ai.usage.input_tokens": cost.prompt_tokens,
        "gen_ai.usage.output_tokens": cost.completion_tokens,
    }


def _jittered(seconds: float, spread_seconds: float) -> float:
    """At least so long, and up to the spread longer: those that wait together do not come together."""
    return seconds + random.uniform(0.0, spread_seconds)  # noqa: S311  # Jitter is no secret.
