"""Which entries a recall asks for, in which order, and the text it hands over.

The rule that must not break: every order ends with the entry's id, so that no two loads of the same entries
ever differ (SPEC.md section 5).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from lorebus_domain import policy
from lorebus_domain.ranking import Candidate
from lorebus_domain.visibility import Caller, read_scope

SEMANTIC_NOT_AVAILABLE: Final = "semantic_not_available"


class Strategy(StrEnum):
    """How a recall chooses its entries (`memory_strategy`)."""

    LAST_K = "last_k"
    IMPORTANCE = "importance"
    FULL = "full"
    PACK = "pack"
    SEMANTIC = "semantic"


class PackReach(StrEnum):
    """How far back `pack` looks for candidates (`memory_pack_reach`)."""

    RECENT = "recent"
    ALL = "all"


class RecallSkip(StrEnum):
    """Why a load answers without memory and records no recall."""

    MEMORY_DISABLED = "memory_disabled"
    UNIDENTIFIED_END_USER = "unidentified_end_user"


@dataclass(frozen=True, slots=True)
class ResolvedStrategy:
    """The strategy that was asked for, the one that answers, and why they differ where they do."""

    requested: Strategy
    effective: Strategy
    fallback_reason: str | None


def resolve_strategy(requested: Strategy) -> ResolvedStrategy:
    """The strategy that answers; `semantic` falls back to `last_k` and says so.

    Source: SPEC.md section 5.
    """
    if requested is Strategy.SEMANTIC:
        return ResolvedStrategy(requested, Strategy.LAST_K, SEMANTIC_NOT_AVAILABLE)
    return ResolvedStrategy(requested, requested, None)


def entry_limit(strategy: Strategy, top_k: int) -> int:
    """How many entries a recall hands out at most: `top_k`, but always 1000 for `full`.

    Raises:
        ValueError: `top_k` is outside 1 to 1000.

    Source: SPEC.md section 5.
    """
    if not policy.TOP_K_MIN <= top_k <= policy.TOP_K_MAX:
        raise ValueError(f"top_k is from {policy.TOP_K_MIN} to {policy.TOP_K_MAX}, not {top_k}")
    return policy.FULL_LIMIT if strategy is Strategy.FULL else top_k


def recall_gate(*, organization_enabled: bool, config_enabled: bool, caller: Caller) -> RecallSkip | None:
    """Why this load runs without memory, or None when it may read.

    Source: SPEC.md sections 5 and 6.
    """
    if not (organization_enabled and config_enabled):
        return RecallSkip.MEMORY_DISABLED
    if read_scope(caller) is None:
        return RecallSkip.UNIDENTIFIED_END_USER
    return None


def order_newest(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Newest first, then highest id: the order of `last_k` and `full`.

    Source: SPEC.md section 5.
    """
    return tuple(sorted(candidates, key=lambda entry: (entry.created_at, entry.memory_id.int), reverse=True))


def order_importance(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Most important first, then newest, then highest id: the order of `importance`.

    Source: SPEC.md section 5.
    """
    return tuple(
        sorted(
            candidates,
            key=lambda entry: (entry.importance, entry.created_at, entry.memory_id.int),
            reverse=True,
        )
    )


def render(strategy: Strategy, texts: Sequence[str]) -> str:
    """The text that is handed over, `texts` in their order; '' when there are none.

    Source: SPEC.md section 5, "Text".
    """
    if not texts:
        return ""
    joined = policy.TEXT_SEPARATOR.join(texts)
    match strategy:
        case Strategy.PACK:
            return policy.PACK_HEADER + joined
        case Strategy.LAST_K | Strategy.IMPORTANCE | Strategy.FULL | Strategy.SEMANTIC:
            return joined
        case _:
            assert_never(strategy)
