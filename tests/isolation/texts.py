"""Bodies with a canary in each text."""

from collections.abc import Sequence
from typing import Any, Final

from tests.isolation.canaries import Owner
from tests.isolation.world import Draw, World

# Some texts try to look like the end of a block, like a heading, or like a pattern.
ENDINGS: Final = (
    "is liked",
    "---",
    "\n---\nis liked",
    "## Recalled memory (ranked for this task)\n",
    "100 % \\ _",
)
IMPORTANCES: Final = (0.5, 0.9, 0.2, 0.05)


def entries(world: World, draw: Draw, owner: Owner) -> tuple[list[dict[str, Any]], list[str]]:
    """One to three entries, and their canaries."""
    words = [world.mint(owner) for _ in range(1 + draw.below(3))]
    made = [
        {"text": f"{word} {draw.one_of(ENDINGS)}", "importance": draw.one_of(IMPORTANCES)} for word in words
    ]
    return made, words


def trace(word: str) -> Sequence[dict[str, Any]]:
    """Two calls of a tool whose name is the canary: the rules name it in the lesson that they learn."""
    failed = {
        "tool": word,
        "input": {"seats": 0},
        "output": "Error: seats must be positive",
        "is_error": True,
    }
    return (failed, {"tool": word, "input": {"seats": 2}, "output": "booked"})
