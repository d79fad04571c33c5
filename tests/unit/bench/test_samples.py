"""Percentiles, spreads, ratios of neighbours and slopes."""

import pytest

from tests.bench.samples import Spread, percentile, ratio_of_pairs, slope


def test_a_percentile_is_one_of_the_values() -> None:
    values = [5.0, 1.0, 3.0, 2.0, 4.0]
    assert [percentile(values, percent) for percent in (0, 20, 50, 99, 100)] == [1.0, 1.0, 3.0, 5.0, 5.0]


def test_the_99th_of_200_values_leaves_two_above_it() -> None:
    assert percentile(list(range(1, 201)), 99) == 198


def test_no_value_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="no value"):
        percentile([], 50)


def test_a_spread_is_the_middle_the_lowest_and_the_highest() -> None:
    assert Spread.of([30.0, 10.0, 20.0]) == Spread(20.0, 10.0, 30.0, 3)


def test_a_machine_that_slows_down_changes_no_ratio_of_neighbours() -> None:
    assert ratio_of_pairs([10.0, 5.0, 2.0], [20.0, 10.0, 4.0]) == 0.5


def test_every_measurement_has_its_neighbour() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ratio_of_pairs([1.0, 2.0], [1.0])


def test_a_slope_is_the_growth_in_one_unit_of_time() -> None:
    assert slope([0.0, 1.0, 2.0, 3.0], [10.0, 12.0, 14.0, 16.0]) == pytest.approx(2.0)


def test_one_moment_has_no_slope() -> None:
    assert slope([1.0, 1.0], [10.0, 12.0]) == 0.0
