"""Answering a load: what a session may see, chosen as its agent config says, as text for the prompt.

The rule that must not break: whom the memory is for comes from a verified token or a stored session; whoever may
have none gets none and leaves no trace; and nothing is written on the load's path (SPEC.md sections 5 and 6).
"""

import secrets
from dataclasses import dataclass, replace
from datetime import datetime
from time import perf_counter
from typing import TypeAlias, assert_never
from uuid import UUID, uuid4

from lorebus_contracts.events import CallerBody, RecallRecorded
from lorebus_contracts.http_answers import LoadAnswer
from lorebus_contracts.workflows import WorkflowType
from lorebus_domain.recall import (
    PackReach,
    RecallSkip,
    ResolvedStrategy,
    Strategy,
    recall_gate,
    render,
    resolve_strategy,
)
from lorebus_domain.recall_format import (
    MARKER_BYTES,
    NO_ENTRIES_AS_JSON,
    RecalledEntry,
    RecallFormat,
    as_json,
    fenced,
)
from lorebus_gateway import metrics
from lorebus_gateway.answered_recalls import AnsweredRecall, Choice, HandedOut
from lorebus_gateway.errors import NotFoundError
from lorebus_gateway.handing_out import Plan, hand_out
from lorebus_gateway.recall_recorder import RecallRecorder
from lorebus_gateway.remembered import Remembered
from lorebus_kit.run_ids import RunIds
from lorebus_kit.tokens import SessionClaims
from lorebus_kit.tracing import traceparent
from lorebus_store import recall_settings, sessions
from lorebus_store.acting import Tenants
from lorebus_store.database import Database
from lorebus_store.recall_settings import RecallSettings

KnownSettings: TypeAlias = Remembered[tuple[UUID, UUID], RecallSettings]
"""Settings by organization and agent config."""


@dataclass(frozen=True, slots=True)
class RecallWish:
    """What a load asks for; None is the session's task, or the agent config's setting."""

    cue: str | None = None
    strategy: Strategy | None = None
    top_k: int | None = None
    format: RecallFormat = RecallFormat.PLAIN
    explain: bool = False


class Recalling:
    """Answers loads and has what it handed out recorded behind the answer."""

    def __init__(
        self, database: Database, recorder: RecallRecorder, run_ids: RunIds, settings: KnownSettings
    ) -> None:
        self._database = database
        self._recorder = recorder
        self._run_ids = run_ids
        self._settings = settings

    async def recall(self, session: SessionClaims, wish: RecallWish, *, now: datetime) -> LoadAnswer:
        """The memory for a session. Without memory the answer says why, and no recall is recorded.

        Raises:
            NotFoundError: the session is not known, or not within this agent config.
            TransientError: the database is away.
        """
        began = perf_counter()
        plan = _plan(session, wish, await self._settings_of(session))
        if isinstance(plan, LoadAnswer):
            await self._task_of(session)
            metrics.RECALLS_SKIPPED.labels(plan.skipped_reason).inc()
            return plan
        if plan.cue is None and plan.reach is PackReach.ALL:
            plan = replace(plan, cue=await self._task_of(session))
        async with self._database.glance() as connection:
            choice = await hand_out(connection, plan, now=now)
        if choice is None:
            raise NotFoundError
        recall_id = self._run_ids.make(session.organization_uuid, WorkflowType.MEMORY_LOAD, now=now)
        answer = _answer(plan, wish, choice, recall_id)
        # What a budget is spent on are texts and separators, whatever else an answer has around them.
        used_chars = len(render(plan.strategy.effective, choice.texts))
        head = _recorded(session, plan, answer, recall_id, now, cue=choice.cue, used_chars=used_chars)
        await self._recorder.record(AnsweredRecall(head, choice.without_texts(), traceparent()))
        _measure(answer, used_chars, perf_counter() - began)
        return answer

    async def _settings_of(self, session: SessionClaims) -> RecallSettings:
        organization, config = session.organization_uuid, session.agent_config_uuid

        async def ask() -> RecallSettings | None:
            async with self._database.read(Tenants.of(organization)) as connection:
                return await recall_settings.of_config(connection, organization, config)

        found = await self._settings.get((organization, config), ask)
        if found is None:
            raise NotFoundError
        return found

    async def _task_of(self, session: SessionClaims) -> str:
        """What a session is about; '' where it was told no task."""
        async with self._database.read(Tenants.of(session.organization_uuid)) as connection:
            found = await sessions.get(connection, session.organization_uuid, session.session_uuid)
        if found is None or found.agent_config_uuid != session.agent_config_uuid:
            raise NotFoundError
        return found.task or ""


def _measure(answer: LoadAnswer, used_chars: int, seconds: float) -> None:
    metrics.RECALLS.labels(answer.strategy).inc()
    metrics.RECALL_SECONDS.labels(answer.strategy).observe(seconds)
    metrics.RECALL_ENTRIES.labels(answer.strategy).observe(answer.count)
    metrics.RECALL_CHARS.labels(answer.strategy).observe(used_chars)


def _plan(session: SessionClaims, wish: RecallWish, settings: RecallSettings) -> Plan | LoadAnswer:
    strategy = resolve_strategy(wish.strategy or settings.strategy)
    skip = recall_gate(
        organization_enabled=settings.organization_enabled,
        config_enabled=settings.config_enabled,
        caller=session.caller,
    )
    if skip is not None:
        return _without_memory(strategy, wish.format, skip)
    return Plan(
        scope=session.scope,
        strategy=strategy,
        session_uuid=session.session_uuid,
        top_k=wish.top_k or settings.top_k,
        cue=wish.cue,
        reach=settings.pack_reach if strategy.effective is Strategy.PACK else PackReach.RECENT,
    )


def _answer(plan: Plan, wish: RecallWish, choice: Choice, recall_id: UUID) -> LoadAnswer:
    strategy = plan.strategy
    return LoadAnswer(
        memory=_written(wish.format, strategy.effective, choice),
        count=len(choice.entries),
        pack_id=uuid4() if strategy.effective is Strategy.PACK else None,
        recall_id=recall_id,
        requested_strategy=strategy.requested,
        strategy=strategy.effective,
        fallback_reason=strategy.fallback_reason,
        explanation=choice.explanation() if wish.explain else None,
    )


def _written(form: RecallFormat, strategy: Strategy, choice: Choice) -> str:
    match form:
        case RecallFormat.PLAIN:
            return render(strategy, choice.texts)
        case RecallFormat.FENCED:
            return fenced(choice.texts, iter(lambda: secrets.token_hex(MARKER_BYTES), ""))
        case RecallFormat.JSON:
            handed_out = zip(choice.entries, choice.texts, strict=True)
            return as_json([_entry(entry, text) for entry, text in handed_out])
        case _:
            assert_never(form)


def _entry(entry: HandedOut, text: str) -> RecalledEntry:
    return RecalledEntry(entry.memory_id, entry.rank, text, entry.importance, entry.score)


def _without_memory(strategy: ResolvedStrategy, form: RecallFormat, reason: RecallSkip) -> LoadAnswer:
    return LoadAnswer(
        memory=NO_ENTRIES_AS_JSON if form is RecallFormat.JSON else "",
        count=0,
        requested_strategy=strategy.requested,
        strategy=strategy.effective,
        fallback_reason=strategy.fallback_reason,
        skipped_reason=reason,
    )


def _recorded(
    session: SessionClaims,
    plan: Plan,
    answer: LoadAnswer,
    recall_id: UUID,
    now: datetime,
    *,
    cue: str,
    used_chars: int,
) -> RecallRecorded:
    """The event without what was chosen, which is put in when it is made into bytes."""
    return RecallRecorded(
        event_id=recall_id,
        occurred_at=now,
        organization_uuid=session.organization_uuid,
        agent_config_uuid=session.agent_config_uuid,
        session_uuid=session.session_uuid,
        caller=CallerBody.of(session.caller),
        requested_strategy=answer.requested_strategy,
        strategy=answer.strategy,
        top_k=plan.top_k,
        cue=cue,
        pack_id=answer.pack_id,
        budget_used_chars=used_chars,
        entries=(),
    )
