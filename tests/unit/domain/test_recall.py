"""Strategies, their orders and the text they hand over (SPEC.md section 5)."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebus_domain.ranking import Candidate
from lorebus_domain.recall import (
    PackReach,
    RecallSkip,
    ResolvedStrategy,
    Strategy,
    entry_limit,
    order_importance,
    order_newest,
    recall_gate,
    render,
    resolve_strategy,
)
from lorebus_domain.visibility import Actor, Caller, EndUser, NoCaller
from tests.unit.domain.examples import NOW, Memory, importances, instants

EARLIER = NOW.replace(year=2025)
ORDERED = [Strategy.LAST_K, Strategy.IMPORTANCE, Strategy.FULL]


def candidates_of(memories: list[Memory]) -> list[Candidate]:
    return [memory.candidate(number) for number, memory in enumerate(memories)]


def numbers(candidates: tuple[Candidate, ...]) -> list[int]:
    return [candidate.memory_id.int for candidate in candidates]


def test_semantic_falls_back_to_last_k_and_says_so() -> None:
    assert resolve_strategy(Strategy.SEMANTIC) == ResolvedStrategy(
        requested=Strategy.SEMANTIC, effective=Strategy.LAST_K, fallback_reason="semantic_not_available"
    )


@pytest.mark.parametrize("strategy", [*ORDERED, Strategy.PACK])
def test_every_other_strategy_answers_itself(strategy: Strategy) -> None:
    assert resolve_strategy(strategy) == ResolvedStrategy(strategy, strategy, None)


@pytest.mark.parametrize(
    ("strategy", "limit"), [("last_k", 7), ("importance", 7), ("pack", 7), ("semantic", 7), ("full", 1000)]
)
def test_a_strategy_hands_out_top_k_and_full_a_thousand(strategy: str, limit: int) -> None:
    assert entry_limit(Strategy(strategy), 7) == limit


@pytest.mark.parametrize("top_k", [0, -1, 1001])
def test_a_top_k_outside_1_to_1000_is_refused(top_k: int) -> None:
    with pytest.raises(ValueError, match=f"top_k is from 1 to 1000, not {top_k}"):
        entry_limit(Strategy.LAST_K, top_k)


def test_the_reaches_are_named_as_the_setting_says() -> None:
    assert [reach.value for reach in PackReach] == ["recent", "all"]


@pytest.mark.parametrize("strategy", [*ORDERED, Strategy.SEMANTIC])
def test_ordered_strategies_join_texts_by_a_line_of_dashes(strategy: Strategy) -> None:
    assert render(strategy, ["first", "second\nline", "third"]) == "first\n---\nsecond\nline\n---\nthird"


def test_a_pack_has_a_heading_an_empty_line_and_the_texts() -> None:
    assert render(Strategy.PACK, ["first", "second"]) == (
        "## Recalled memory (ranked for this task)\n\nfirst\n---\nsecond"
    )


@pytest.mark.parametrize("strategy", list(Strategy))
def test_no_entries_are_the_empty_text(strategy: Strategy) -> None:
    assert render(strategy, []) == ""


def test_newest_goes_by_date_then_highest_id() -> None:
    memories = [Memory("a", 0.1, NOW), Memory("b", 0.9, EARLIER), Memory("c", 0.5, NOW)]

    assert numbers(order_newest(candidates_of(memories))) == [2, 0, 1]


def test_importance_goes_by_importance_then_date_then_highest_id() -> None:
    memories = [
        Memory("a", 0.5, NOW),
        Memory("b", 0.9, EARLIER),
        Memory("c", 0.5, EARLIER),
        Memory("d", 0.5, NOW),
    ]

    assert numbers(order_importance(candidates_of(memories))) == [1, 3, 0, 2]


@given(
    st.lists(st.builds(Memory, st.just("a"), importances, instants), max_size=10),
    st.randoms(use_true_random=False),
)
def test_no_order_depends_on_how_the_entries_came(memories: list[Memory], random: Random) -> None:
    candidates = candidates_of(memories)
    shuffled = list(candidates)
    random.shuffle(shuffled)

    assert order_newest(shuffled) == order_newest(candidates)
    assert order_importance(shuffled) == order_importance(candidates)


@pytest.mark.parametrize(
    ("organization_enabled", "config_enabled", "caller", "skip"),
    [
        (True, True, NoCaller(), None),
        (True, True, EndUser("u1"), None),
        (True, True, Actor("a1"), None),
        (False, True, Actor("a1"), RecallSkip.MEMORY_DISABLED),
        (True, False, Actor("a1"), RecallSkip.MEMORY_DISABLED),
        (True, True, EndUser(None), RecallSkip.UNIDENTIFIED_END_USER),
        (False, False, EndUser(None), RecallSkip.MEMORY_DISABLED),
    ],
)
def test_a_load_runs_without_memory_when_it_is_off_or_nobody_is_identified(
    *, organization_enabled: bool, config_enabled: bool, caller: Caller, skip: RecallSkip | None
) -> None:
    gate = recall_gate(
        organization_enabled=organization_enabled, config_enabled=config_enabled, caller=caller
    )

    assert gate is skip
