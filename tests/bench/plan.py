"""How much is measured: the full sizes of PERFORMANCE.md, or a part of them for a quick look."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.places import PUBLISHED, ROOT

PARTS: Final = ("cold_starts", "floors", "saves", "loads", "prunes", "peers")
MEMORIES: Final = 20_000
SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
PRUNED: Final = 200_000
LOAD_SECONDS: Final = 3.0
BACKLOG_SECONDS: Final = 10.0
LEAST_REPETITIONS: Final = 5
QUICK: Final = ROOT / ".cache" / "performance"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure, how large, how often, and where it goes."""

    scale: float
    repetitions: int
    parts: tuple[str, ...]
    judged: str
    folder: Path

    @property
    def memories(self) -> int:
        """Memories of one measurement of saves; 100 at the least, which is one large POST."""
        return max(100, int(MEMORIES * self.scale))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Entries of each agent config that is loaded from; small ones are left as they are."""
        return tuple(sorted({max(SIZES[0], int(size * self.scale)) for size in SIZES}))

    @property
    def pruned(self) -> int:
        """Entries of the agent config that loses half of them."""
        return max(1_000, int(PRUNED * self.scale))

    @property
    def load_seconds(self) -> float:
        """How long each measurement of loads goes on."""
        return max(0.5, LOAD_SECONDS * min(1.0, self.scale * 10))

    @property
    def backlog_seconds(self) -> float:
        """How long saves go on at P2's rate."""
        return max(1.0, BACKLOG_SECONDS * min(1.0, self.scale * 10))


def plan_of(words: list[str] | None = None) -> Plan:
    """What the command line asks for. Only a full run is published unasked."""
    parser = argparse.ArgumentParser(description="Measure Lorebus beside its floors, by turns.")
    parser.add_argument("--scale", type=float, default=1.0, help="Of all sizes; 1 is the published run.")
    parser.add_argument("--repetitions", type=int, default=LEAST_REPETITIONS)
    parser.add_argument("--only", default=",".join(PARTS), help=f"Some of {','.join(PARTS)}.")
    parser.add_argument(
        "--accept", choices=("bus", "store"), default="bus", help="Which gateway P1 to P5 judge."
    )
    parser.add_argument("--into", type=Path, help=f"Folder of what is written; a part goes to {QUICK.name}.")
    given = parser.parse_args(words)
    parts = tuple(part for part in PARTS if part in given.only.split(","))
    unknown = set(given.only.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"--only: there is no {', '.join(sorted(unknown))}")
    full = given.scale == 1.0 and given.repetitions >= LEAST_REPETITIONS and parts == PARTS
    folder = given.into or (PUBLISHED if full else QUICK)
    return Plan(given.scale, given.repetitions, parts, f"lorebus, accept={given.accept}", folder)
