"""What a bench measured: how many, how fast, and the times that half and 99 of 100 stayed within.

The rule that must not break: what failed is counted by itself, and its time is in no figure.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from lorebus_domain.recall import Strategy


@dataclass(slots=True)
class Measured:
    """Seconds that each request took, by what it was, in the order in which they were answered."""

    saves: list[float] = field(default_factory=list)
    loads: dict[Strategy, list[float]] = field(default_factory=dict)
    visible: list[float] = field(default_factory=list)
    """From a save's sending to the first load that has its text."""

    unseen: int = 0
    """Saves whose text no load had in time."""

    failed: Counter[str] = field(default_factory=Counter)
    """By status of HTTP, or by the name of what the connection died of."""


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that this share of all, in (0, 1], does not exceed; None when there are none."""
    if not values:
        return None
    return sorted(values)[math.ceil(share * len(values)) - 1]


def figures(seconds_each: Sequence[float], *, over_seconds: float) -> dict[str, object]:
    """Count, rate over that time (above 0), and p50 and p99 in milliseconds (null when there are none)."""
    return {
        "count": len(seconds_each),
        "per_second": round(len(seconds_each) / over_seconds, 1),
        "p50_ms": _milliseconds(percentile(seconds_each, 0.50)),
        "p99_ms": _milliseconds(percentile(seconds_each, 0.99)),
    }


def report(measured: Measured, *, over_seconds: float) -> dict[str, object]:
    """All figures as a JSON object; `loads` is by strategy."""
    return {
        "saves_accepted": figures(measured.saves, over_seconds=over_seconds),
        "save_to_visible": figures(measured.visible, over_seconds=over_seconds) | {"unseen": measured.unseen},
        "loads": {
            strategy.value: figures(seconds, over_seconds=over_seconds)
            for strategy, seconds in measured.loads.items()
        },
        "failed": dict(sorted(measured.failed.items())),
    }


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(1_000 * seconds, 1)
