"""Waiting for a run on a client's behalf: `Prefer: wait=N` (RFC 7240), and the events of a watched run.

The rule that must not break: a preference never makes a request fail. What cannot be waited for is answered as it would
have been without one.
"""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic
from typing import Final, TypeAlias

from starlette.types import Scope

from lorebus_contracts.http_answers import RunSnapshot
from lorebus_gateway.answers import Answer, answer
from lorebus_gateway.errors import NotFoundError
from lorebus_gateway.run_changes import RunChanges
from lorebus_gateway.run_status import Asker, RunStatus
from lorebus_gateway.server_sent_events import HEARTBEAT, HEARTBEAT_SECONDS, server_sent_event
from lorebus_store.errors import TransientError
from lorebus_store.run_versions import RunVersion

LONGEST_WAIT_SECONDS: Final = 30
"""SPEC.md asks for no more; a longer wish is waited for this long, and the answer says so."""
SNAPSHOT: Final = "snapshot"
"""The name of a watched run's events."""

TELL_SECONDS: Final = 1.0
"""How often somebody who waits is told that nothing has changed."""

Tell: TypeAlias = Callable[[float, float, str], Awaitable[None]]
"""Tells progress: seconds gone, seconds at most, and the state that the run is in."""

_ACCEPTED: Final = 202
_WAIT: Final = re.compile(r'wait\s*=\s*"?([0-9]{1,9})"?\s*(?:;.*)?', re.IGNORECASE)


class RunWaiting:
    """Answers with a run's end, where it comes in time."""

    def __init__(
        self,
        changes: RunChanges,
        run_status: RunStatus,
        *,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self._changes = changes
        self._run_status = run_status
        self._heartbeat_seconds = heartbeat_seconds

    async def preferred(self, given: Answer, asker: Asker, scope: Scope) -> Answer:
        """The answer, or the run's snapshot if the client prefers to wait and the run ends within that time."""
        seconds = _wait_seconds(scope) if given.status == _ACCEPTED and given.run_id is not None else None
        if seconds is None or given.run_id is None:
            return given
        applied = (("preference-applied", f"wait={seconds}"),)
        if await self._changes.ended((asker.organization_uuid, given.run_id), seconds=seconds):
            with suppress(NotFoundError, TransientError):
                run = await self._run_status.snapshot(asker, given.run_id, now=datetime.now(UTC))
                return answer(200, run, headers=given.headers + applied, run_id=run.workflow_id)
        return replace(given, headers=given.headers + applied)

    async def until_ended(self, asker: Asker, run: RunSnapshot, *, seconds: float, tell: Tell) -> RunSnapshot:
        """The run when it has ended, or as it is when the time is up or the gateway stops.

        Raises:
            NotFoundError: the run is gone.
            TransientError: the database is away.
        """
        began = monotonic()
        while not run.is_terminal and not self._changes.is_stopping:
            gone = monotonic() - began
            if gone >= seconds:
                break
            await tell(gone, seconds, run.state_name)
            known = RunVersion(run.state_name, run.updated_at)
            key = (asker.organization_uuid, run.workflow_id)
            if await self._changes.changed(key, known, seconds=min(TELL_SECONDS, seconds - gone)) is not None:
                run = await self._run_status.snapshot(asker, run.workflow_id, now=datetime.now(UTC))
        return run

    async def watch(self, asker: Asker, run: RunSnapshot) -> AsyncGenerator[bytes, None]:
        """The run as it is, and again at each change until it has ended; heartbeats while nothing happens.

        It also ends when the run is gone, and when the gateway stops.
        """
        yield _event(run)
        while not run.is_terminal:
            known = RunVersion(run.state_name, run.updated_at)
            key = (asker.organization_uuid, run.workflow_id)
            changed = await self._changes.changed(key, known, seconds=self._heartbeat_seconds)
            if changed is None and self._changes.is_stopping:
                return
            before = run
            try:
                run = await self._run_status.snapshot(asker, run.workflow_id, now=datetime.now(UTC))
            except NotFoundError:
                return
            except TransientError:
                yield HEARTBEAT
                continue
            yield HEARTBEAT if run == before else _event(run)


def _event(run: RunSnapshot) -> bytes:
    return server_sent_event(SNAPSHOT, run.model_dump_json().encode())


def _wait_seconds(scope: Scope) -> int | None:
    """How long the client prefers to wait, at most 30; None where it says nothing that can be understood.

    The first of several wishes counts (RFC 7240 section 2).
    """
    for name, value in scope["headers"]:
        if name == b"prefer":
            for preference in value.decode("latin-1").split(","):
                found = _WAIT.fullmatch(preference.strip())
                if found is not None:
                    return min(int(found[1]), LONGEST_WAIT_SECONDS)
    return None
