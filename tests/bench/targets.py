"""What must be reached, and whether it was: the figures P1 to P11 of PERFORMANCE.md.

The rule that must not break: a figure that was not measured is reached by nothing; it says so instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Verdict(StrEnum):
    """How a figure stands to what is asked of it."""

    AIM = "aim"
    MUST = "must"
    MISSED = "MISSED"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Target:
    """One figure: what must be, what would be good, and which of the two directions is better."""

    number: str
    key: str
    what: str
    must: float
    aim: float
    more_is_better: bool
    unit: str = ""

    def verdict(self, reached: float | None) -> Verdict:
        """Whether `reached` is as good as the aim, as the must, or not; None is not measured."""
        if reached is None:
            return Verdict.NOT_MEASURED
        if self._is_as_good(reached, self.aim):
            return Verdict.AIM
        return Verdict.MUST if self._is_as_good(reached, self.must) else Verdict.MISSED

    def _is_as_good(self, reached: float, bound: float) -> bool:
        return reached >= bound if self.more_is_better else reached <= bound


def _more(number: str, key: str, what: str, must: float, aim: float) -> Target:
    return Target(number, key, what, must, aim, more_is_better=True)


def _less(number: str, key: str, what: str, must: float, aim: float, *, unit: str = "") -> Target:
    return Target(number, key, what, must, aim, more_is_better=False, unit=unit)


TARGETS: Final = (
    _more("P1", "saves_1", "saves, 1 entry a POST, over the bare trial", 0.30, 0.50),
    _more("P2", "saves_5", "saves, 5 entries a POST, over the bare trial", 0.40, 0.60),
    _more("P3", "saves_100", "saves, 100 entries a POST, over the bare trial", 0.60, 0.80),
    _more("P4", "last_k_rate", "`last_k` loads/s at the largest size, over the bare trial", 0.40, 0.60),
    _less("P4", "last_k_p99", "their p99 over its p99", 2.0, 1.5),
    _more("P5", "pack_rate", "`pack` loads/s at the largest size, over the bare trial", 0.60, 1.0),
    _less("P5", "pack_p99", "their p99 over its p99", 1.6, 1.2),
    _less("P6", "growth_last_k", "`last_k`: median at the largest size over the smallest", 1.3, 1.1),
    _less("P6", "growth_importance", "`importance`: the same", 1.3, 1.1),
    _less("P6", "growth_pack", "`pack`: the same", 1.6, 1.3),
    _less("P6", "growth_full", "`full`: the same", 2.0, 1.9),
    _less("P7", "prune_time", "prune of half, time over the raw stepped delete", 3.0, 1.5),
    _less("P7", "prune_p99", "loads' p99 meanwhile, over their p99 before", 2.0, 1.3),
    _less("P8", "cold_start", "`make run` to the first save and load answered", 8.0, 3.0, unit="s"),
    _less("P9", "gateway_mb", "resident size of the gateway, at most", 160.0, 110.0, unit="MB"),
    _less("P9", "consumer_mb", "resident size of the largest consumer, at most", 120.0, 80.0, unit="MB"),
    _more("P10", "over_mem0", "saves of 1 entry, over mem0's", 6.0, 12.0),
    _more("P10", "over_hindsight", "saves of 1 entry, over Hindsight's", 80.0, 150.0),
    _less("P11", "lost_saves", "saves lost or counted twice", 0.0, 0.0),
    _less("P11", "backlog_seconds", "backlog left at P2's rate", 1.0, 0.3, unit="s"),
)

HEADER: Final = ("#", "figure", "must", "aim", "reached", "verdict")


def verdict_rows(reached: Mapping[str, float | None]) -> list[tuple[str, ...]]:
    """A row for each target; its key's value in `reached` is what was measured."""
    return [_row(target, reached.get(target.key)) for target in TARGETS]


def _row(target: Target, reached: float | None) -> tuple[str, ...]:
    sign = "\N{GREATER-THAN OR EQUAL TO}" if target.more_is_better else "\N{LESS-THAN OR EQUAL TO}"
    unit = f" {target.unit}" if target.unit else ""
    return (
        target.number,
        target.what,
        f"{sign} {target.must:g}{unit}",
        f"{sign} {target.aim:g}{unit}",
        "-" if reached is None else f"{reached:.3g}{unit}",
        target.verdict(reached).value,
    )
