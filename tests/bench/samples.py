"""Numbers out of many: percentiles of one measurement, medians and spreads of its repetitions, slopes over time."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of 100 of all values do not exceed (nearest rank).

    Raises:
        ValueError: there is no value.
    """
    if not values:
        raise ValueError("no value has no percentile")
    rank = max(1, math.ceil(len(values) * percent / 100))
    return sorted(values)[rank - 1]


@dataclass(frozen=True, slots=True)
class Spread:
    """The repetitions of one figure: the middle one, the lowest and the highest."""

    median: float
    lowest: float
    highest: float
    repetitions: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Of at least one value."""
        return cls(statistics.median(values), min(values), max(values), len(values))


def ratio_of_pairs(values: Sequence[float], floors: Sequence[float]) -> float:
    """The median of the ratios of what was measured right after one another.

    A machine that slows down during a run does so for both of a pair, so this is steadier than the ratio of medians.
    """
    return statistics.median(value / floor for value, floor in zip(values, floors, strict=True))


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """How much the values grow in one unit of time, by least squares; 0 when there is no line through them."""
    if len(set(times)) < 2:
        return 0.0
    return statistics.linear_regression(times, values).slope
