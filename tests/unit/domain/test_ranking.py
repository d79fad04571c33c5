"""Ranking and packing (SPEC.md section 5, "pack")."""

from datetime import timedelta
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebus_domain.ranking import Pack, PassReason, rank_pack, recency
from lorebus_domain.recall import Strategy, render
from lorebus_domain.text import clean, normal_form
from tests.unit.domain.examples import NOW, Memory, any_text, importances, instants, lessons

HEADER_CHARS = 43


def pack_of(memories: list[Memory], *, cue: str = "", top_k: int = 10, budget_chars: int = 20_000) -> Pack:
    candidates = [memory.candidate(number) for number, memory in enumerate(memories)]
    return rank_pack(candidates, cue=cue, now=NOW, top_k=top_k, budget_chars=budget_chars)


def numbers(pack: Pack) -> list[int]:
    return [entry.memory_id.int for entry in pack.entries]


def passed(pack: Pack) -> list[tuple[int, int, str]]:
    return [(entry.memory_id.int, entry.rank_in_order, entry.reason.value) for entry in pack.passed_over]


def rendered(memories: list[Memory], pack: Pack) -> str:
    return render(Strategy.PACK, [memories[number].text for number in numbers(pack)])


@pytest.mark.parametrize(
    ("age_days", "expected"),
    [(0, 1.0), (15, 0.70711), (30, 0.5), (60, 0.25), (-5, 1.0), (1_000_000 / 2, 0.0)],
)
def test_recency_halves_every_30_days_and_no_date_is_in_the_future(age_days: float, expected: float) -> None:
    assert recency(NOW - timedelta(days=age_days), NOW) == pytest.approx(expected, abs=1e-5)


def test_a_score_weighs_relevance_importance_and_recency() -> None:
    """By hand: .6 * 1 + .25 * .4 + .15 * .5 = .775, and .6 * 0 + .25 * .8 + .15 * 1 = .35."""
    pack = pack_of(
        [Memory("Rotate the key", 0.4, NOW - timedelta(days=30)), Memory("Lunch is at noon", 0.8)],
        cue="rotate key",
    )

    assert [(e.memory_id.int, e.rank, e.score) for e in pack.entries] == [(0, 1, 0.775), (1, 2, 0.35)]
    assert [(e.relevance, e.importance, e.recency) for e in pack.entries] == [
        (1.0, 0.4, 0.5),
        (0.0, 0.8, 1.0),
    ]
    assert pack.passed_over == ()


def test_an_empty_cue_leaves_importance_and_recency() -> None:
    pack = pack_of([Memory("a b", 0.2), Memory("c d", 0.9), Memory("e f", 0.5)])

    assert numbers(pack) == [1, 2, 0]
    assert [entry.score for entry in pack.entries] == [0.375, 0.275, 0.2]


def test_no_candidates_make_an_empty_pack() -> None:
    assert pack_of([], cue="anything") == Pack(entries=(), passed_over=())


def test_equal_scores_go_by_importance_then_newest_then_highest_id() -> None:
    """Half an importance and 30 days' recency weigh the same: .25 * .3 = .15 * .5."""
    older = NOW - timedelta(days=30)
    memories = [
        Memory("first", 0.5, NOW),
        Memory("second", 0.8, older),
        Memory("third", 0.5, NOW),
        Memory("fourth", 0.5, NOW + timedelta(days=1)),
    ]

    pack = pack_of(memories)

    assert {entry.score for entry in pack.entries} == {0.275}
    assert numbers(pack) == [1, 3, 2, 0]


def test_a_text_whose_normal_form_is_in_is_a_duplicate() -> None:
    pack = pack_of([Memory("Same text", 0.9), Memory("other", 0.5), Memory("same  TEXT.", 0.7)])

    assert numbers(pack) == [0, 1]
    assert passed(pack) == [(2, 2, "duplicate")]


def test_a_duplicate_of_what_did_not_fit_may_still_come_in() -> None:
    pack = pack_of(
        [Memory("Same" + " " * 30 + "text", 0.9), Memory("Same text", 0.7)], budget_chars=HEADER_CHARS + 9
    )

    assert numbers(pack) == [1]
    assert passed(pack) == [(0, 1, "over_budget")]


def test_the_walk_stops_at_top_k() -> None:
    pack = pack_of([Memory("a", 0.9), Memory("b", 0.8), Memory("c", 0.7), Memory("A", 0.6)], top_k=2)

    assert numbers(pack) == [0, 1]
    assert passed(pack) == [(2, 3, "beyond_top_k"), (3, 4, "beyond_top_k")]


def test_header_and_separators_count_to_the_budget() -> None:
    memories = [Memory("aaaa", 0.9), Memory("bbbb", 0.8)]
    exactly = len("## Recalled memory (ranked for this task)\n\naaaa\n---\nbbbb")

    fits = pack_of(memories, budget_chars=exactly)
    one_short = pack_of(memories, budget_chars=exactly - 1)

    assert exactly == HEADER_CHARS + 4 + 5 + 4
    assert numbers(fits) == [0, 1]
    assert numbers(one_short) == [0]
    assert passed(one_short) == [(1, 2, "over_budget")]


def test_of_large_texts_what_does_not_fit_is_named() -> None:
    """43 + 9 900 + 5 + 9 900 = 19 848: of the rest only what has at most 147 would fit, so none of 300."""
    best = [Memory(letter * 9900, 0.9) for letter in "abc"]
    small = [Memory(letter * 300, 0.5) for letter in "defghijklm"]

    pack = pack_of(best + small, top_k=20)

    assert numbers(pack) == [2, 1]
    assert passed(pack) == [(0, 3, "over_budget")] + [(12 - n, 4 + n, "over_budget") for n in range(10)]
    assert len(rendered(best + small, pack)) == 19_848


def test_after_a_large_text_that_does_not_fit_ten_small_ones_are_taken() -> None:
    """43 + 9 900 + 10 * (5 + 300) = 12 993; with a second text of 9 900 it would be 19 848."""
    memories = [Memory("a" * 9900, 0.9), Memory("b" * 9900, 0.8)] + [
        Memory(c * 300, 0.5) for c in "cdefghijkl"
    ]

    pack = pack_of(memories, top_k=20, budget_chars=19_000)

    assert numbers(pack) == [0, *range(11, 1, -1)]
    assert passed(pack) == [(1, 2, "over_budget")]
    assert len(rendered(memories, pack)) == 12_993


def test_a_budget_below_the_header_gives_nothing() -> None:
    pack = pack_of([Memory("a")], budget_chars=10)

    assert pack.entries == ()
    assert [entry.reason for entry in pack.passed_over] == [PassReason.OVER_BUDGET]


def test_a_top_k_below_1_is_refused() -> None:
    with pytest.raises(ValueError, match="top_k is at least 1, not 0"):
        pack_of([], top_k=0)


memories_to_pack = st.lists(
    st.builds(Memory, any_text.map(clean).filter(normal_form), importances, instants), max_size=12
)


@given(memories_to_pack, any_text.map(clean), st.integers(1, 5), st.integers(0, 200))
def test_a_pack_never_exceeds_top_k_or_its_budget_and_names_every_candidate_once(
    memories: list[Memory], cue: str, top_k: int, budget_chars: int
) -> None:
    pack = pack_of(memories, cue=cue, top_k=top_k, budget_chars=budget_chars)

    assert len(pack.entries) <= top_k
    assert len(rendered(memories, pack)) <= budget_chars
    named = numbers(pack) + [entry.memory_id.int for entry in pack.passed_over]
    assert sorted(named) == list(range(len(memories)))
    assert len({normal_form(memories[number].text) for number in numbers(pack)}) == len(pack.entries)


@given(memories_to_pack, any_text.map(clean), st.randoms(use_true_random=False))
def test_a_pack_does_not_depend_on_the_order_of_candidates(
    memories: list[Memory], cue: str, random: Random
) -> None:
    candidates = [memory.candidate(number) for number, memory in enumerate(memories)]
    shuffled = list(candidates)
    random.shuffle(shuffled)

    pack = rank_pack(candidates, cue=cue, now=NOW, top_k=4, budget_chars=120)

    assert rank_pack(shuffled, cue=cue, now=NOW, top_k=4, budget_chars=120) == pack


@given(memories_to_pack, any_text.map(clean))
def test_scores_are_in_0_to_1_and_never_rise_along_the_ranking(memories: list[Memory], cue: str) -> None:
    pack = pack_of(memories, cue=cue, top_k=1000)

    scores = [entry.score for entry in pack.entries]
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert scores == sorted(scores, reverse=True)


def test_a_pack_of_ten_finds_what_is_relevant_in_twelve_languages() -> None:
    """RELEVANCE.md: recall@10 with equal importance and age is at least .97."""
    found = lessons()
    candidates = [
        Memory(clean(lesson["text"])).candidate(number) for number, lesson in enumerate(found["lessons"])
    ]
    number_of = {lesson["id"]: number for number, lesson in enumerate(found["lessons"])}

    shares = []
    for task in found["tasks"]:
        pack = rank_pack(candidates, cue=clean(task["cue"]), now=NOW, top_k=10)
        handed_out = {entry.memory_id for entry in pack.entries}
        relevant = {UUID(int=number_of[lesson_id]) for lesson_id in task["relevant"]}
        shares.append(len(handed_out & relevant) / len(relevant))

    assert len(shares) == 60
    assert sum(shares) / len(shares) >= 0.97
