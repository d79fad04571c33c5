"""Ranking the candidates of a `pack` and taking what fits.

The rule that must not break: a pack never exceeds its top_k or its budget, and is the same whatever order the
candidates come in (SPEC.md section 5, "pack"). Texts are not needed: lengths and fingerprints decide, so that
a load fetches only the texts it hands out.

A load makes some seven hundred of these records while its caller waits, so they are named tuples: as frozen
dataclasses they take a third of the whole ranking.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from lorebus_domain import policy
from lorebus_domain.relevance import relevances
from lorebus_domain.terms import terms

_HALF_LIFE: Final = timedelta(days=policy.PACK_HALF_LIFE_DAYS)


class Candidate(NamedTuple):
    """An entry that a pack may hand out: importance in [0, 1], `created_at` with a time zone.

    `terms` are as they are stored: in their order, with a space between two.
    """

    memory_id: UUID
    fingerprint: bytes
    text_chars: int
    importance: float
    created_at: datetime
    terms: str


class PassReason(StrEnum):
    """Why a candidate is not in the pack."""

    DUPLICATE = "duplicate"
    OVER_BUDGET = "over_budget"
    BEYOND_TOP_K = "beyond_top_k"


class PackEntry(NamedTuple):
    """An entry handed out: `rank` counts from 1 in the pack, the score and its parts are in [0, 1]."""

    memory_id: UUID
    rank: int
    score: float
    relevance: float
    importance: float
    recency: float


class PassedOver(NamedTuple):
    """A candidate left out: `rank_in_order` counts from 1 among all candidates, those handed out included."""

    memory_id: UUID
    rank_in_order: int
    reason: PassReason
    score: float
    relevance: float
    importance: float
    recency: float


@dataclass(frozen=True, slots=True)
class Pack:
    """What is handed out, best first, and what is not, in ranking order: together every candidate once."""

    entries: tuple[PackEntry, ...]
    passed_over: tuple[PassedOver, ...]


# Score, importance, created_at and the id, which are what ranks, in this order; then relevance, recency and the
# candidate.
_Scored: TypeAlias = tuple[float, float, datetime, UUID, float, float, Candidate]


def recency(created_at: datetime, now: datetime) -> float:
    """0.5 to the power of the age in half-lives of 30 days: in [0, 1], and 1 for a date in the future.

    Source: SPEC.md section 5.
    """
    return recency_after((now - created_at) / _HALF_LIFE)


def recency_after(half_lives: float) -> float:
    """The recency of an age in half-lives; an age below 0 is none."""
    return math.pow(0.5, half_lives) if half_lives > 0.0 else 1.0


def weighted(relevance: float, importance: float, youth: float) -> float:
    """The score that ranks, not rounded yet, of one candidate or of a column of them.

    Source: SPEC.md section 5, "pack".
    """
    return (
        policy.PACK_WEIGHT_RELEVANCE * relevance
        + policy.PACK_WEIGHT_IMPORTANCE * importance
        + policy.PACK_WEIGHT_RECENCY * youth
    )


def rank_pack(
    candidates: Sequence[Candidate],
    *,
    cue: str,
    now: datetime,
    top_k: int,
    budget_chars: int = policy.PACK_BUDGET_CHARS,
) -> Pack:
    """The pack of at most `top_k` entries whose rendered text has at most `budget_chars` code points.

    A candidate that does not fit is passed over and smaller ones after it are still taken. Whatever the walk
    did not come to, because `top_k` was reached, is `beyond_top_k`.

    Raises:
        ValueError: `top_k` is below 1.

    Source: SPEC.md section 5, "pack".
    """
    packing = Packing(top_k, budget_chars)
    entries: list[PackEntry] = []
    passed_over: list[PassedOver] = []
    ranked = _ranked(candidates, cue, now)
    for rank_in_order, scored in enumerate(ranked, start=1):
        if packing.is_full:
            passed_over += _beyond_top_k(ranked, rank_in_order)
            break
        score, importance, _, memory_id, relevance, youth, candidate = scored
        reason = packing.take_or_reason(candidate.fingerprint, candidate.text_chars)
        parts = (score, relevance, importance, youth)
        if reason is None:
            entries.append(PackEntry(memory_id, len(entries) + 1, *parts))
        else:
            passed_over.append(PassedOver(memory_id, rank_in_order, reason, *parts))
    return Pack(tuple(entries), tuple(passed_over))


class Packing:
    """What is in the pack so far, and so what still may come in."""

    def __init__(self, top_k: int, budget_chars: int) -> None:
        """Begin with nothing.

        Raises:
            ValueError: `top_k` is below 1.
        """
        if top_k < policy.TOP_K_MIN:
            raise ValueError(f"top_k is at least {policy.TOP_K_MIN}, not {top_k}")
        self._free_places = top_k
        # Each text is charged the separator before it; the first has none.
        self._free_chars = budget_chars - len(policy.PACK_HEADER) + len(policy.TEXT_SEPARATOR)
        self._fingerprints: set[bytes] = set()

    @property
    def is_full(self) -> bool:
        """Whether whatever comes now is beyond top_k."""
        return self._free_places == 0

    def take_or_reason(self, fingerprint: bytes, text_chars: int) -> PassReason | None:
        """Take the candidate, or say why it is passed over."""
        if fingerprint in self._fingerprints:
            return PassReason.DUPLICATE
        cost_chars = len(policy.TEXT_SEPARATOR) + text_chars
        if cost_chars > self._free_chars:
            return PassReason.OVER_BUDGET
        self._free_places -= 1
        self._free_chars -= cost_chars
        self._fingerprints.add(fingerprint)
        return None


def _beyond_top_k(ranked: Sequence[_Scored], first_rank: int) -> list[PassedOver]:
    """All candidates from this rank on, which are most of them."""
    reason = PassReason.BEYOND_TOP_K
    return [
        PassedOver(memory_id, rank, reason, score, relevance, importance, youth)
        for rank, (score, importance, _, memory_id, relevance, youth, _) in enumerate(
            ranked[first_rank - 1 :], start=first_rank
        )
    ]


def _ranked(candidates: Sequence[Candidate], cue: str, now: datetime) -> list[_Scored]:
    """Best first; equal scores by importance, then newest, then highest id."""
    overlap = relevances(terms(cue), [candidate.terms.split() for candidate in candidates])
    scored = [
        _scored(candidate, relevance, now) for candidate, relevance in zip(candidates, overlap, strict=True)
    ]
    scored.sort(reverse=True)
    return scored


def _scored(candidate: Candidate, relevance: float, now: datetime) -> _Scored:
    memory_id, _, _, importance, created_at, _ = candidate
    youth = recency(created_at, now)
    rounded = round(weighted(relevance, importance, youth), policy.PACK_SCORE_DECIMALS)
    return (rounded, importance, created_at, memory_id, relevance, youth, candidate)
