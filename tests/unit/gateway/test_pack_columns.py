"""A pack ranked as columns is the domain's pack, value for value."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from struct import pack as packed_numbers
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebus_contracts.left_out import LeftOut
from lorebus_domain.ranking import Candidate, PassReason, rank_pack
from lorebus_domain.terms import packed, terms
from lorebus_gateway.pack_columns import RankedPack, rank_columns
from lorebus_store.memories import PackedCandidates
from tests.unit.domain.examples import (
    NOW,
    Memory,
    RelevanceVector,
    any_text,
    importances,
    instants,
    lessons,
    relevance_vectors,
)

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def candidates_of(memories: list[Memory]) -> list[Candidate]:
    """With fingerprints by case alone, so that texts without a word have one as well."""
    return [
        Candidate(
            memory_id=UUID(int=number),
            fingerprint=sha256(memory.text.lower().encode(errors="surrogatepass")).digest(),
            text_chars=len(memory.text),
            importance=memory.importance,
            created_at=memory.created_at,
            terms=" ".join(terms(memory.text)),
        )
        for number, memory in enumerate(memories)
    ]


def columns_of(candidates: list[Candidate]) -> PackedCandidates:
    count = len(candidates)
    stored = [candidate.terms.split() for candidate in candidates]
    micros = [(candidate.created_at - EPOCH) // timedelta(microseconds=1) for candidate in candidates]
    return PackedCandidates(
        task="",
        ids=b"".join(candidate.memory_id.bytes for candidate in candidates),
        fingerprints=b"".join(candidate.fingerprint for candidate in candidates),
        importances=packed_numbers(f">{count}d", *(candidate.importance for candidate in candidates)),
        created_at=packed_numbers(f">{count}q", *micros),
        text_chars=packed_numbers(f">{count}i", *(candidate.text_chars for candidate in candidates)),
        term_counts=packed_numbers(f">{count}i", *map(len, stored)),
        term_hashes=b"".join(map(packed, stored)),
    )


def ranked(memories: list[Memory], *, cue: str, top_k: int, budget_chars: int = 20_000) -> RankedPack:
    candidates = candidates_of(memories)
    return rank_columns(columns_of(candidates), cue=cue, now=NOW, top_k=top_k, budget_chars=budget_chars)


@given(
    memories=st.lists(
        st.builds(
            Memory, any_text | st.sampled_from(["use UTC", "USE UTC", "key key node"]), importances, instants
        ),
        max_size=25,
    ),
    cue=any_text | st.sampled_from(["", "use the key", "node utc"]),
    top_k=st.integers(1, 12),
    budget_chars=st.integers(0, 200),
)
def test_it_is_the_domains_pack(memories: list[Memory], cue: str, top_k: int, budget_chars: int) -> None:
    candidates = candidates_of(memories)
    by_domain = rank_pack(candidates, cue=cue, now=NOW, top_k=top_k, budget_chars=budget_chars)

    found = ranked(memories, cue=cue, top_k=top_k, budget_chars=budget_chars)

    assert tuple(found.entries) == by_domain.entries
    assert tuple(found.passed_over) == by_domain.passed_over


@pytest.mark.parametrize("vector", relevance_vectors()["relevance"], ids=lambda vector: vector["name"])
def test_a_vector_has_its_relevances_to_four_decimals(vector: RelevanceVector) -> None:
    memories = [Memory(text) for text in vector["entries"]]

    found = ranked(memories, cue=vector["cue"], top_k=1_000, budget_chars=1_000_000)

    parts = {passed.memory_id.int: passed.relevance for passed in (*found.entries, *found.passed_over)}
    assert [round(parts[number], 4) for number in range(len(memories))] == vector["relevance"]


def test_a_real_task_gets_the_lessons_that_the_domain_gives_it() -> None:
    told = lessons()
    memories = [Memory(lesson["text"]) for lesson in told["lessons"]]
    candidates = candidates_of(memories)
    for task in told["tasks"]:
        by_domain = rank_pack(candidates, cue=task["cue"], now=NOW, top_k=10)

        found = ranked(memories, cue=task["cue"], top_k=10)

        assert tuple(found.entries) == by_domain.entries, task["cue"]


def test_what_is_left_out_is_told_in_the_columns_of_its_event() -> None:
    memories = [Memory("use UTC", 0.9), Memory("USE UTC", 0.8), Memory("x" * 100, 0.7), Memory("last", 0.6)]

    found = ranked(memories, cue="", top_k=1, budget_chars=60)

    told = LeftOut(**found.passed_over.columns()).entries()
    assert [(left.memory_id, left.reason) for left in told] == [
        (UUID(int=1), PassReason.BEYOND_TOP_K),
        (UUID(int=2), PassReason.BEYOND_TOP_K),
        (UUID(int=3), PassReason.BEYOND_TOP_K),
    ]
    assert [(left.score, left.importance) for left in told] == [
        (passed.score, passed.importance) for passed in found.passed_over
    ]


def test_a_pack_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="top_k is at least 1, not 0"):
        ranked([Memory("use UTC")], cue="", top_k=0)
