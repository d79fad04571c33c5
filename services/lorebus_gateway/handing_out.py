"""Choosing what a load hands out: the store's candidates, the domain's order, the texts of those chosen only.

The rule that must not break: what is read is the caller's own scope, and no text is fetched that is not handed out
(PERFORMANCE.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from lorebus_contracts.events import PassedOverEntry, RecalledEntry
from lorebus_domain import policy
from lorebus_domain.ranking import PassedOver, rank_pack
from lorebus_domain.recall import PackReach, ResolvedStrategy, Strategy, entry_limit
from lorebus_domain.relevance import reach_terms
from lorebus_domain.terms import terms
from lorebus_domain.visibility import ReadScope
from lorebus_store import memories
from lorebus_store.database import Connection


@dataclass(frozen=True, slots=True)
class Plan:
    """What a load does, once wish and settings are put together."""

    organization_uuid: UUID
    agent_config_uuid: UUID
    scope: ReadScope
    strategy: ResolvedStrategy
    top_k: int
    cue: str
    reach: PackReach


@dataclass(frozen=True, slots=True)
class HandedOut:
    """What a recall hands out: each entry with its text, best first, and what it passed over."""

    entries: tuple[RecalledEntry, ...]
    texts: tuple[str, ...]
    passed_over: tuple[PassedOverEntry, ...] = ()


async def hand_out(connection: Connection, plan: Plan, *, now: datetime) -> HandedOut:
    """What the plan hands out, from a connection on which each statement stands alone.

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
    found = await read(connection, plan.organization_uuid, plan.agent_config_uuid, plan.scope, limit)
    entries = tuple(
        RecalledEntry(memory_id=entry.id, rank=rank, importance=entry.importance)
        for rank, entry in enumerate(found, start=1)
    )
    return HandedOut(entries, tuple(entry.text for entry in found))


async def _hand_out_pack(connection: Connection, plan: Plan, *, now: datetime) -> HandedOut:
    reaches_all = plan.reach is PackReach.ALL
    candidates = await memories.pack_candidates(
        connection,
        plan.organization_uuid,
        plan.agent_config_uuid,
        plan.scope,
        newest_limit=policy.PACK_NEWEST_CANDIDATES,
        important_limit=policy.PACK_IMPORTANT_CANDIDATES,
        reach_terms=reach_terms(terms(plan.cue)) if reaches_all else None,
        reach_limit=policy.PACK_REACH_CANDIDATES,
    )
    pack = rank_pack(candidates, cue=plan.cue, now=now, top_k=plan.top_k)
    ids = [entry.memory_id for entry in pack.entries]
    texts = await memories.texts_of(connection, plan.organization_uuid, ids)
    # An entry that was deleted since the ranking is not handed out any more.
    there = [entry for entry in pack.entries if entry.memory_id in texts]
    return HandedOut(
        entries=tuple(
            RecalledEntry(
                memory_id=entry.memory_id,
                rank=rank,
                score=entry.score,
                relevance=entry.relevance,
                importance=entry.importance,
                recency=entry.recency,
            )
            for rank, entry in enumerate(there, start=1)
        ),
        texts=tuple(texts[entry.memory_id] for entry in there),
        passed_over=_passed_over(pack.passed_over),
    )


def _passed_over(candidates: Sequence[PassedOver]) -> tuple[PassedOverEntry, ...]:
    return tuple(
        PassedOverEntry(
            memory_id=candidate.memory_id,
            reason=candidate.reason,
            score=candidate.score,
            relevance=candidate.relevance,
            importance=candidate.importance,
            recency=candidate.recency,
        )
        for candidate in candidates
    )
