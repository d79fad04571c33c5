"""The word overlap of a cue with each candidate of one recall, damped by the candidate's length.

The rule that must not break: the same cue and candidates give the same values in every process, in whatever
order they come (RELEVANCE.md). Hence exact sums (`math.fsum`) and no step that depends on a set's order.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain
from math import fsum, log
from typing import Final

from lorebus_domain import policy

# Counting one term is fast, but a long entry that shares thousands with the cue is gone through only once.
_COUNTED_ONE_BY_ONE: Final = 8


def relevances(cue_terms: Collection[str], entries: Sequence[Sequence[str]]) -> tuple[float, ...]:
    """The relevance of each entry, in the order of `entries`, each in [0, 1]; all 0 when nothing overlaps.

    `entries` are the terms of every candidate of one recall, repeats kept: relevance is relative to that set
    and is not compared across recalls.
    Source: RELEVANCE.md, "Formula".
    """
    cue = frozenset(cue_terms)
    frequencies = [_frequencies(cue, entry) for entry in entries]
    containing = Counter(chain.from_iterable(frequencies))
    if not containing:
        return (0.0,) * len(entries)
    weights = {term: weight(len(entries), count) for term, count in containing.items()}
    mean_length = sum(map(len, entries)) / len(entries)
    raws = [
        _raw(weights, frequency, damping(len(entry) / mean_length)) if frequency else 0.0
        for entry, frequency in zip(entries, frequencies, strict=True)
    ]
    best = max(*raws, floor(len(entries)))
    return tuple(raw / best for raw in raws)


def weight(candidates: int, containing: int) -> float:
    """w(t) of the formula, of a term that `containing` of the candidates have.

    Source: RELEVANCE.md, "Formula".
    """
    return log(1 + candidates / containing)


def floor(candidates: int) -> float:
    """The least that the best overlap counts as, so that a word that all share makes none a perfect match.

    Source: RELEVANCE.md, "Formula".
    """
    return log(1 + candidates) / policy.RELEVANCE_FLOOR_DIVISOR


def damping(relative_length: float) -> float:
    """K(e) of the formula, of an entry's length over the mean.

    Source: RELEVANCE.md, "Formula".
    """
    return policy.RELEVANCE_SATURATION * (
        policy.RELEVANCE_DAMPING_BASE + policy.RELEVANCE_DAMPING_SLOPE * relative_length
    )


def reach_terms(cue_terms: Collection[str]) -> tuple[str, ...]:
    """The terms that the wider reach searches for: at most 32, distinct, in the cue's order.

    A long cue keeps its first and its last 16, where a task says what it is about and what it wants.
    Source: RELEVANCE.md, "Which candidates".
    """
    distinct = tuple(dict.fromkeys(cue_terms))
    per_end = policy.PACK_REACH_TERMS_PER_END
    if len(distinct) <= 2 * per_end:
        return distinct
    return distinct[:per_end] + distinct[-per_end:]


def _frequencies(cue: frozenset[str], entry: Sequence[str]) -> dict[str, int]:
    """How often the entry has each term of the cue that it has."""
    shared = cue.intersection(entry)
    if not shared:
        return {}
    if len(shared) <= _COUNTED_ONE_BY_ONE:
        return {term: entry.count(term) for term in shared}
    return Counter(filter(shared.__contains__, entry))


def _raw(weights: dict[str, float], frequency: dict[str, int], damped: float) -> float:
    return fsum(weights[term] * count / (count + damped) for term, count in frequency.items())
