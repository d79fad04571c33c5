"""Answering a load: what a session may see, chosen as its agent config says, as text for the prompt.

The rule that must not break: whom the memory is for comes from a verified token or a stored session; whoever may
have none gets none and leaves no trace; and nothing is written on the load's path (SPEC.md sections 5 and 6).
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from lorebus_contracts.events import CallerBody, RecallRecorded
from lorebus_contracts.http_answers import Explanation, LoadAnswer
from lorebus_contracts.workflows import WorkflowType
from lorebus_domain.recall import (
    RecallSkip,
    ResolvedStrategy,
    Strategy,
    recall_gate,
    render,
    resolve_strategy,
)
from lorebus_domain.visibility import read_scope
from lorebus_gateway import metrics
from lorebus_gateway.errors import NotFoundError
from lorebus_gateway.handing_out import HandedOut, Plan, hand_out
from lorebus_gateway.known_scopes import find_session_of_config
from lorebus_gateway.recall_recorder import RecallRecorder
from lorebus_kit.run_ids import RunIds
from lorebus_kit.tokens import SessionClaims
from lorebus_store import settings
from lorebus_store.database import Connection, Database


@dataclass(frozen=True, slots=True)
class RecallWish:
    """What a load asks for; None is the session's task, or the agent config's setting."""

    cue: str | None = None
    strategy: Strategy | None = None
    top_k: int | None = None
    explain: bool = False


class Recalling:
    """Answers loads and has what it handed out recorded behind the answer."""

    def __init__(self, database: Database, recorder: RecallRecorder, run_ids: RunIds) -> None:
        self._database = database
        self._recorder = recorder
        self._run_ids = run_ids

    async def recall(self, session: SessionClaims, wish: RecallWish, *, now: datetime) -> LoadAnswer:
        """The memory for a session. Without memory the answer says why, and no recall is recorded.

        Raises:
            NotFoundError: the session is not known, or not within this agent config.
            TransientError: the database is away.
        """
        async with self._database.read() as connection:
            plan = await _plan(connection, session, wish)
            if isinstance(plan, LoadAnswer):
                metrics.RECALLS_SKIPPED.labels(plan.skipped_reason).inc()
                return plan
            handed_out = await hand_out(connection, plan, now=now)
        answer = self._answer(session, plan, handed_out, now=now, explain=wish.explain)
        await self._recorder.record(_recorded(session, plan, handed_out, answer, now))
        metrics.RECALLS.labels(answer.strategy).inc()
        return answer

    def _answer(
        self, session: SessionClaims, plan: Plan, handed_out: HandedOut, *, now: datetime, explain: bool
    ) -> LoadAnswer:
        strategy = plan.strategy
        explanation = Explanation(entries=handed_out.entries, passed_over=handed_out.passed_over)
        return LoadAnswer(
            memory=render(strategy.effective, handed_out.texts),
            count=len(handed_out.entries),
            pack_id=uuid4() if strategy.effective is Strategy.PACK else None,
            recall_id=self._run_ids.make(session.organization_uuid, WorkflowType.MEMORY_LOAD, now=now),
            requested_strategy=strategy.requested,
            strategy=strategy.effective,
            fallback_reason=strategy.fallback_reason,
            explanation=explanation if explain else None,
        )


async def _plan(connection: Connection, session: SessionClaims, wish: RecallWish) -> Plan | LoadAnswer:
    pair = (session.organization_uuid, session.agent_config_uuid)
    task = (await find_session_of_config(connection, *pair, session.session_uuid)).task or ""
    known = (await settings.load_settings(connection, [pair]))[pair]
    config = known.config
    if config is None or known.organization is None:
        raise NotFoundError
    strategy = resolve_strategy(wish.strategy or config.memory_strategy)
    skip = recall_gate(
        organization_enabled=known.organization.memory_enabled,
        config_enabled=config.memory_enabled,
        caller=session.caller,
    )
    scope = read_scope(session.caller)
    if skip is not None or scope is None:
        return _without_memory(strategy, skip or RecallSkip.UNIDENTIFIED_END_USER)
    return Plan(
        organization_uuid=session.organization_uuid,
        agent_config_uuid=session.agent_config_uuid,
        scope=scope,
        strategy=strategy,
        top_k=wish.top_k or config.memory_top_k,
        cue=task if wish.cue is None else wish.cue,
        reach=config.memory_pack_reach,
    )


def _without_memory(strategy: ResolvedStrategy, reason: RecallSkip) -> LoadAnswer:
    return LoadAnswer(
        memory="",
        count=0,
        requested_strategy=strategy.requested,
        strategy=strategy.effective,
        fallback_reason=strategy.fallback_reason,
        skipped_reason=reason,
    )


def _recorded(
    session: SessionClaims, plan: Plan, handed_out: HandedOut, answer: LoadAnswer, now: datetime
) -> RecallRecorded:
    if answer.recall_id is None:
        raise AssertionError("an answer with memory has a recall id")
    return RecallRecorded(
        event_id=answer.recall_id,
        occurred_at=now,
        organization_uuid=session.organization_uuid,
        agent_config_uuid=session.agent_config_uuid,
        session_uuid=session.session_uuid,
        caller=CallerBody.of(session.caller),
        requested_strategy=answer.requested_strategy,
        strategy=answer.strategy,
        top_k=plan.top_k,
        cue=plan.cue,
        pack_id=answer.pack_id,
        budget_used_chars=len(answer.memory),
        entries=handed_out.entries,
        passed_over=handed_out.passed_over,
    )
