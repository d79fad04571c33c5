"""The product's numbers, repeated literally: a change of one is a change of the product."""

import pytest

from lorebus_domain import policy


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DEFAULT_MAX_ENTRIES", 10_000),
        ("DEFAULT_IMPORTANCE", 0.5),
        ("MIN_IMPORTANCE", 0.1),
        ("MAX_PRINCIPAL_REF_CHARS", 512),
        ("DISTILL_MIN_STEPS", 2),
        ("DISTILL_MAX_TOOL_CALLS", 25),
        ("DISTILL_MAX_LESSONS", 5),
        ("DISTILL_MAX_ATTEMPTS", 5),
        ("TOP_K_DEFAULT", 10),
        ("TOP_K_MIN", 1),
        ("TOP_K_MAX", 1000),
        ("FULL_LIMIT", 1000),
        ("PACK_NEWEST_CANDIDATES", 250),
        ("PACK_IMPORTANT_CANDIDATES", 250),
        ("PACK_REACH_CANDIDATES", 250),
        ("PACK_REACH_ABOVE_ENTRIES", 500),
        ("PACK_BUDGET_CHARS", 20_000),
        ("PACK_WEIGHT_RELEVANCE", 0.60),
        ("PACK_WEIGHT_IMPORTANCE", 0.25),
        ("PACK_WEIGHT_RECENCY", 0.15),
        ("PACK_HALF_LIFE_DAYS", 30),
        ("PACK_SCORE_DECIMALS", 9),
        ("RATING_SUCCESS_MIN", 0.5),
        ("PRUNE_CHUNK", 1000),
        ("MAX_BODY_BYTES", 1024 * 1024),
        ("MAX_TEXT_CHARS", 10_000),
        ("MAX_ENTRIES_PER_SAVE", 100),
        ("MAX_JSON_DEPTH", 64),
        ("LIST_PER_PAGE_DEFAULT", 20),
        ("LIST_PER_PAGE_MAX", 100),
    ],
)
def test_a_number_of_the_product_is_what_its_specification_says(name: str, value: float) -> None:
    assert getattr(policy, name) == value
