"""Waiting for a run to end, for a client that would otherwise ask again and again."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from time import monotonic
from typing import Final, TypeAlias

from lorebus_contracts.http_answers import RunSnapshot
from lorebus_contracts.mcp_tools import WatchInput
from lorebus_gateway.run_status import Asker, RunStatus

_FIRST_WAIT_SECONDS: Final = 0.05
_LONGEST_WAIT_SECONDS: Final = 0.5

Tell: TypeAlias = Callable[[float, float, str], Awaitable[None]]
"""Tells progress: seconds gone, seconds at most, and the state that the run is in."""


async def watch_run(runs: RunStatus, asker: Asker, wanted: WatchInput, tell: Tell) -> RunSnapshot:
    """The run when it has ended, or as it is when the time is up; progress is told at every look.

    Raises:
        NotFoundError: the asker has no such run.
        TransientError: the database is away.
    """
    began = monotonic()
    wait = _FIRST_WAIT_SECONDS
    while True:
        run = await runs.snapshot(asker, wanted.workflow_id, now=datetime.now(UTC))
        gone = monotonic() - began
        left = wanted.timeout_seconds - gone
        if run.is_terminal or left <= 0:
            return run
        await tell(gone, wanted.timeout_seconds, run.state_name)
        await asyncio.sleep(min(wait, left))
        wait = min(wait * 2, _LONGEST_WAIT_SECONDS)
