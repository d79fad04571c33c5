"""Stopping in time: whoever runs a service kills it 30 s after SIGTERM, so it ends by itself before that.

The rule that must not break: no store that does not answer can hold a process. What it had in hand is then left as a
crash leaves it, which loses nothing and doubles nothing (docs/architecture/delivery.md).
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

STOP_WITHIN_SECONDS: Final = 25.0
"""From the signal to the end, whatever hangs."""

_log: Final = logging.getLogger(__name__)


def on_stop_signal(stop: Callable[[int], None], *, within_seconds: float = STOP_WITHIN_SECONDS) -> None:
    """Call `stop` with the signal's number at SIGTERM and SIGINT; end the process when it has not ended in time."""
    loop = asyncio.get_running_loop()

    def begin(number: int) -> None:
        stop(number)
        loop.call_later(within_seconds, _end)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, begin, number)


def _end() -> None:
    _log.error("ended in the middle of stopping; what was in hand is done again by others")
    sys.stdout.flush()
    os._exit(0)
