"""Waiting between tries: growing, jittered, and given up at once when somebody asks to stop."""

import asyncio
import random
from dataclasses import dataclass
from typing import Final

FIRST_SECONDS: Final = 0.2
MOST_SECONDS: Final = 30.0


@dataclass(slots=True)
class Backoff:
    """Delays from 0.2 s, doubling to 30 s, each between half and all of its size."""

    first_seconds: float = FIRST_SECONDS
    most_seconds: float = MOST_SECONDS
    tries: int = 0

    def next_seconds(self) -> float:
        """The next delay."""
        full = min(self.most_seconds, self.first_seconds * 2.0 ** min(self.tries, 16))
        self.tries += 1
        return full * random.uniform(0.5, 1.0)  # noqa: S311 - Jitter is no secret.

    def reset(self) -> None:
        """Begin again with the shortest delay."""
        self.tries = 0


async def pause(seconds: float, stop: asyncio.Event) -> bool:
    """Wait; true when `stop` was set meanwhile."""
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return False
    return True
