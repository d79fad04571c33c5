"""Choosing what a load hands out: the store's candidates, the domain's order, the texts of those chosen only.

The rule that must not break: what is read is the caller's own scope, and a pack fetches no text that it does not hand
out (PERFORMANCE.md).
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from lorebus_domain import policy
from lorebus_domain.ranking import PackEntry
from lorebus_domain.recall import PackReach, ResolvedStrategy, Strategy, entry_limit
from lorebus_domain.relevance import reach_terms
from lorebus_domain.terms import terms
from lorebus_domain.visibility import Scope
from lorebus_gateway.answered_recalls import Choice, HandedOut
from lorebus_gateway.pack_columns import rank_columns
from lorebus_store import memories
from lorebus_store.database import Connection


@dataclass(frozen=True, slots=True)
class Plan:
    """What a load does, once wish and settings are put together; without a `cue` it is the session's task."""

    scope: Scope
    session_uuid: UUID
    strategy: ResolvedStrategy
    top_k: int
    cue: str | None
    reach: PackReach


async def hand_out(connection: Connection, plan: Plan, *, now: datetime) -> Choice | None:
    """What the plan hands out; None where its session is not known.

    Source: SPEC.md section 5.
    """
    match plan.strategy.effective:
        case Strategy.PACK:
            return await _hand_out_pack(connection, plan, now=now)
        case Strategy.IMPORTANCE:
            read = memories.most_important
        case Strategy.LAST_K | Strategy.FULL | Strategy.SEMANTIC:
            read = memories.newest
    limit = entry_limit(plan.strategy.effective, plan.top_k)
    task, found = await read(connection, plan.scope, limit, session_uuid=plan.session_uuid)
    if task is None:
        return None
    return Choice(
        entries=[HandedOut(entry.id, rank, entry.importance) for rank, entry in enumerate(found, start=1)],
        texts=[entry.text for entry in found],
        cue=task if plan.cue is None else plan.cue,
    )


async def _hand_out_pack(connection: Connection, plan: Plan, *, now: datetime) -> Choice | None:
    candidates = await memories.pack_candidates(
        connection,
        plan.scope,
        newest_limit=policy.PACK_NEWEST_CANDIDATES,
        important_limit=policy.PACK_IMPORTANT_CANDIDATES,
        reach_terms=reach_terms(terms(plan.cue or "")) if plan.reach is PackReach.ALL else None,
        reach_limit=policy.PACK_REACH_CANDIDATES,
        session_uuid=plan.session_uuid,
    )
    if candidates.task is None:
        return None
    cue = candidates.task if plan.cue is None else plan.cue
    pack = rank_columns(candidates, cue=cue, now=now, top_k=plan.top_k)
    ids = [entry.memory_id for entry in pack.entries]
    texts = await memories.texts_of(connection, plan.scope, ids) if ids else {}
    # An entry that was deleted since the ranking is not handed out any more.
    there = [entry for entry in pack.entries if entry.memory_id in texts]
    return Choice(
        entries=[_handed_out(entry, rank) for rank, entry in enumerate(there, start=1)],
        texts=[texts[entry.memory_id] for entry in there],
        cue=cue,
        passed_over=pack.passed_over,
    )


def _handed_out(entry: PackEntry, rank: int) -> HandedOut:
    return HandedOut(
        memory_id=entry.memory_id,
        rank=rank,
        importance=entry.importance,
        score=entry.score,
        relevance=entry.relevance,
        recency=entry.recency,
    )
