"""Ranking the candidates of a pack as columns, which is what a gateway does most of.

The rule that must not break: what comes out is what `lorebus_domain.ranking.rank_pack` makes of the same candidates,
value for value; a test holds the two together, and the walk over the ranked ones is the domain's own. No object is made
of a candidate that is not handed out: for hundreds of them that costs several times the arithmetic
(`docs/decisions/what-a-load-and-a-save-cost.md`).
"""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import fsum
from typing import Any, Final, TypeAlias
from uuid import UUID

import numpy as np

from lorebus_contracts.columns import ID_BYTES
from lorebus_contracts.left_out import LETTERS, REASONS
from lorebus_domain import policy
from lorebus_domain.ranking import (
    PackEntry,
    Packing,
    PassedOver,
    PassReason,
    recency_after,
    weighted,
)
from lorebus_domain.relevance import damping, floor, weight
from lorebus_domain.terms import packed, terms
from lorebus_store.memories import PackedCandidates

# Without numpy's types, which its checker would need to be told shape by shape.
Array: TypeAlias = Any

_FINGERPRINT_BYTES: Final = 32
_HALF_LIFE: Final = timedelta(days=policy.PACK_HALF_LIFE_DAYS) // timedelta(microseconds=1)
_POSTGRES_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_BEYOND: Final = LETTERS[PassReason.BEYOND_TOP_K]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a pack passed over, in ranking order.

    `ids` are rows of 16 bytes, `parts` rows of score, relevance, importance and recency; `ranks` count from 1 among
    all candidates, `reasons` is a letter for each.
    """

    ids: Array
    parts: Array
    ranks: Array
    reasons: str

    def __len__(self) -> int:
        return len(self.reasons)

    def __iter__(self) -> Iterator[PassedOver]:
        ids, parts, ranks = self.ids.tobytes(), self.parts.tolist(), self.ranks.tolist()
        for place, letter in enumerate(self.reasons):
            memory_id = UUID(bytes=ids[place * ID_BYTES : (place + 1) * ID_BYTES])
            yield PassedOver(memory_id, ranks[place], REASONS[letter], *parts[place])

    def columns(self) -> dict[str, str]:
        """The fields of a `lorebus_contracts.left_out.LeftOut` of these candidates."""
        return {
            "memory_ids": b64encode(self.ids.tobytes()).decode(),
            "reasons": self.reasons,
            "parts": b64encode(self.parts.astype("<f8").tobytes()).decode(),
        }


@dataclass(frozen=True, slots=True)
class RankedPack:
    """What is handed out, best first, and what is not."""

    entries: Sequence[PackEntry]
    passed_over: LeftOut


def rank_columns(
    candidates: PackedCandidates,
    *,
    cue: str,
    now: datetime,
    top_k: int,
    budget_chars: int = policy.PACK_BUDGET_CHARS,
) -> RankedPack:
    """The pack of at most `top_k` entries whose rendered text has at most `budget_chars` code points.

    Raises:
        ValueError: `top_k` is below 1.

    Source: SPEC.md section 5, "pack", as `rank_pack`.
    """
    ids: Array = np.frombuffer(candidates.ids, ">u8").reshape(-1, 2)
    importance: Array = np.frombuffer(candidates.importances, ">f8")
    created_at: Array = np.frombuffer(candidates.created_at, ">i8")
    relevance = _relevances(candidates, cue)
    recency = _recencies(created_at, now)
    score = np.round(weighted(relevance, importance, recency), policy.PACK_SCORE_DECIMALS)
    # Best first; equal scores by importance, then newest, then highest id. The last key counts most.
    order = np.lexsort((ids[:, 1], ids[:, 0], created_at, importance, score))[::-1]
    parts = np.column_stack((score, relevance, importance, recency))[order]
    return _walked(candidates, order, ids[order], parts, Packing(top_k, budget_chars))


def _walked(
    candidates: PackedCandidates, order: Array, ids: Array, parts: Array, packing: Packing
) -> RankedPack:
    """Take what fits, in ranking order; `ids` and `parts` are in that order already."""
    chars = np.frombuffer(candidates.text_chars, ">i4")[order]
    reasons: list[str] = []
    taken: list[int] = []
    for rank, place in enumerate(order):
        if packing.is_full:
            break
        start = int(place) * _FINGERPRINT_BYTES
        fingerprint = candidates.fingerprints[start : start + _FINGERPRINT_BYTES]
        reason = packing.take_or_reason(fingerprint, int(chars[rank]))
        if reason is None:
            taken.append(rank)
        else:
            reasons.append(LETTERS[reason])
    left = np.delete(np.arange(len(order)), taken)
    reasons.append(_BEYOND * (len(left) - len(reasons)))
    entries = [
        PackEntry(UUID(bytes=ids[rank].tobytes()), number, *parts[rank].tolist())
        for number, rank in enumerate(taken, start=1)
    ]
    return RankedPack(entries, LeftOut(ids[left], parts[left], left + 1, "".join(reasons)))


def _relevances(candidates: PackedCandidates, cue: str) -> Array:
    """The overlap of each candidate with the cue; RELEVANCE.md, "Formula"."""
    lengths: Array = np.frombuffer(candidates.term_counts, ">i4").astype(np.int64)
    count = len(lengths)
    wanted: Array = np.unique(np.frombuffer(packed(terms(cue)), ">u8"))
    stored: Array = np.frombuffer(candidates.term_hashes, ">u8")
    if not len(wanted) or not len(stored):
        return np.zeros(count)
    places: Array = np.searchsorted(wanted, stored)
    places[places == len(wanted)] = 0
    hits = wanted[places] == stored
    # Each pair of an entry and a term of the cue that it has, entry by entry, with how often it has it.
    owners: Array = np.repeat(np.arange(count), lengths)
    pairs, times = np.unique(owners[hits] * len(wanted) + places[hits], return_counts=True)
    if not len(pairs):
        return np.zeros(count)
    owner, term = pairs // len(wanted), pairs % len(wanted)
    containing = np.bincount(term, minlength=len(wanted))
    weights: Array = np.array([weight(count, having) if having else 0.0 for having in containing.tolist()])
    damped: Array = damping(lengths / (int(lengths.sum()) / count))
    shares = (weights[term] * times / (times + damped[owner])).tolist()
    raw = np.zeros(count)
    owning, starts = np.unique(owner, return_index=True)
    ends = [*starts[1:].tolist(), len(shares)]
    raw[owning] = [fsum(shares[start:end]) for start, end in zip(starts.tolist(), ends, strict=True)]
    return raw / max(raw.max(), floor(count))


def _recencies(created_at: Array, now: datetime) -> Array:
    """0.5 to the power of the age in half-lives; `lorebus_domain.ranking.recency`."""
    until = (now - _POSTGRES_EPOCH) // timedelta(microseconds=1)
    half_lives = (until - created_at) / _HALF_LIFE
    return np.array(list(map(recency_after, half_lives.tolist())))
