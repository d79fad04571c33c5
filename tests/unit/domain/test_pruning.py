"""What an agent config loses over its cap (SPEC.md section 7)."""

from datetime import datetime, timedelta
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebus_domain.pruning import PrunableEntry, PrunePlan, plan_prune, prune_key
from tests.unit.domain.examples import NOW, importances, instants

OLDER = NOW - timedelta(days=1)


def entry(number: int, importance: float = 0.5, created_at: datetime = NOW) -> PrunableEntry:
    return PrunableEntry(UUID(int=number), importance, created_at)


def numbers(plan: PrunePlan) -> list[int]:
    return [memory_id.int for memory_id in plan.to_delete]


def test_lowest_importance_goes_first_then_oldest_then_lowest_id() -> None:
    entries = [entry(5, 0.9, OLDER), entry(4, 0.2), entry(3, 0.2), entry(9, 0.2, OLDER), entry(1, 0.5)]

    plan = plan_prune(entries, 1)

    assert numbers(plan) == [9, 3, 4, 1]
    assert plan.remaining == 1


def test_a_cap_of_100_takes_30_of_130() -> None:
    entries = [entry(number, importance=number / 130) for number in range(130)]

    plan = plan_prune(entries, 100)

    assert numbers(plan) == list(range(30))
    assert plan.remaining == 100


@pytest.mark.parametrize(("held", "cap"), [(0, 0), (3, 3), (3, 10)])
def test_a_config_within_its_cap_loses_nothing(held: int, cap: int) -> None:
    assert plan_prune([entry(number) for number in range(held)], cap) == PrunePlan((), held)


def test_a_cap_of_0_empties_the_config() -> None:
    plan = plan_prune([entry(number) for number in range(3)], 0)

    assert numbers(plan) == [0, 1, 2]
    assert plan.remaining == 0


def test_a_negative_cap_is_refused() -> None:
    with pytest.raises(ValueError, match="a cap is 0 or more, not -1"):
        plan_prune([], -1)


@given(
    st.lists(st.tuples(importances, instants), max_size=12),
    st.integers(0, 15),
    st.randoms(use_true_random=False),
)
def test_a_prune_keeps_nothing_below_anything_it_dropped(
    drawn: list[tuple[float, datetime]], cap: int, random: Random
) -> None:
    entries = [entry(number, *values) for number, values in enumerate(drawn)]
    random.shuffle(entries)

    plan = plan_prune(entries, cap)

    key_of = {e.memory_id: prune_key(e.importance, e.created_at, e.memory_id) for e in entries}
    dropped = [key_of[memory_id] for memory_id in plan.to_delete]
    kept = [key for memory_id, key in key_of.items() if memory_id not in plan.to_delete]
    assert dropped == sorted(dropped)
    assert plan.remaining == len(kept) == min(cap, len(entries))
    assert not dropped or not kept or max(dropped) < min(kept)
