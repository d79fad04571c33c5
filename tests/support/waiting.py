"""Waiting for something to become true, with a deadline; a test never sleeps."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

Answer = TypeVar("Answer")

LONGEST_SECONDS: Final = 30.0
_BETWEEN_SECONDS: Final = 0.02


async def until(condition: Callable[[], object], *, what: str, seconds: float = LONGEST_SECONDS) -> None:
    """Wait until the condition is true.

    Raises:
        TimeoutError: it was not in time; the text says what was waited for.
    """

    async def asked() -> bool:
        return bool(condition())

    await eventually(asked, what=what, seconds=seconds)


async def eventually(
    ask: Callable[[], Awaitable[Answer]], *, what: str, seconds: float = LONGEST_SECONDS
) -> Answer:
    """Ask again and again until the answer is true, and give it.

    Raises:
        TimeoutError: it was not in time; the text says what was waited for, and the last answer.
    """
    deadline = time.monotonic() + seconds
    while True:
        answer = await ask()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}; the last answer was {answer!r}")
        await asyncio.sleep(_BETWEEN_SECONDS)
