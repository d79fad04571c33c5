"""Waiting for what a measurement waits for; that it never comes is a result as well."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

LONGEST_SECONDS: Final = 300.0
_BETWEEN_SECONDS: Final = 0.01


async def until(condition: Callable[[], Awaitable[bool]], *, seconds: float = LONGEST_SECONDS) -> bool:
    """Wait until it holds; False when it did not in time."""
    deadline = time.monotonic() + seconds
    while not await condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_BETWEEN_SECONDS)
    return True
