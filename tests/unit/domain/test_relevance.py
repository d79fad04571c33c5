"""Word overlap (RELEVANCE.md, "Formula")."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebus_domain.relevance import reach_terms, relevances
from lorebus_domain.terms import terms
from tests.unit.domain.examples import RelevanceVector, relevance_vectors

words = st.sampled_from(["key", "sign", "cache", "node", "上海", "🚀"])
entry_terms = st.lists(words, max_size=12)


@pytest.mark.parametrize("vector", relevance_vectors()["relevance"], ids=lambda vector: vector["name"])
def test_a_vector_has_its_relevances_to_four_decimals(vector: RelevanceVector) -> None:
    found = relevances(terms(vector["cue"]), [terms(entry) for entry in vector["entries"]])

    assert [round(relevance, 4) for relevance in found] == vector["relevance"]


def test_the_example_by_hand() -> None:
    """.6931 / 1.7 and .6931 / 2.1 over the floor 1.0986 / 1.9."""
    entries = ["Check the backup", "Check the backup before you touch the disks, the routers or the switches"]
    assert [len(terms(entry)) for entry in entries] == [2, 7]

    found = relevances(terms("backup"), [terms(entry) for entry in entries])

    assert found == pytest.approx((0.7052, 0.5708), abs=5e-5)


def test_no_candidates_have_no_relevances() -> None:
    assert relevances(["key"], []) == ()


def test_candidates_without_terms_are_irrelevant() -> None:
    assert relevances(["key"], [(), ()]) == (0.0, 0.0)


def test_an_entry_that_shares_many_terms_counts_each_as_often_as_it_has_it() -> None:
    """By hand: n = 1, w = ln 2, K = .9; ten terms twice each give the best value, which is 1."""
    many = [f"t{number}" for number in range(10)]

    one_entry = relevances(many, [many * 2])
    two_entries = relevances(many, [many * 2, many])

    assert one_entry == (1.0,)
    # Lengths 20 and 10, mean 15: K = 1.02 and .78; 2 / 3.02 = .66225 and 1 / 1.78 = .56180 of the same w.
    assert two_entries == pytest.approx((1.0, 0.56180 / 0.66225), abs=1e-4)


@given(entry_terms, st.lists(entry_terms, max_size=8))
def test_a_relevance_is_in_0_to_1_and_above_0_exactly_on_overlap(
    cue: list[str], entries: list[list[str]]
) -> None:
    found = relevances(cue, entries)

    assert all(0.0 <= relevance <= 1.0 for relevance in found)
    assert [relevance > 0.0 for relevance in found] == [not set(cue).isdisjoint(entry) for entry in entries]


@given(entry_terms, st.lists(entry_terms, max_size=8), st.randoms(use_true_random=False))
def test_order_and_repeats_of_the_cue_and_order_of_candidates_do_not_matter(
    cue: list[str], entries: list[list[str]], random: Random
) -> None:
    order = list(range(len(entries)))
    random.shuffle(order)
    shuffled_cue = cue * 2
    random.shuffle(shuffled_cue)

    found = relevances(cue, entries)

    assert relevances(shuffled_cue, [entries[index] for index in order]) == tuple(
        found[index] for index in order
    )


def test_a_short_cue_reaches_with_all_its_distinct_terms() -> None:
    assert reach_terms(["b", "a", "b"]) == ("b", "a")
    assert len(reach_terms([str(number) for number in range(32)])) == 32


def test_a_long_cue_reaches_with_its_first_and_last_16() -> None:
    cue = [str(number) for number in range(40)]

    assert reach_terms(cue) == tuple(str(number) for number in [*range(16), *range(24, 40)])
