"""Programs kept up: their lines go to one log, a crashed one is started again, none is left at the end.

The rule that must not break: after `stop` no process of ours is left, and after our own death neither (see
`processes`). Everything here runs in one event loop, that of the main thread.
"""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Final

from lorebus_kit.backoff import pause
from lorebus_ops.line_log import LineLog
from lorebus_ops.pipe_lines import PipeLines
from lorebus_ops.processes import Program, kill_group, spawn_options

FIRST_WAIT_SECONDS: Final = 0.2
MOST_WAIT_SECONDS: Final = 10.0
STEADY_SECONDS: Final = 30.0
"""Up this long, a program that ends then is started again after the shortest wait."""

_LAST_LINES_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.05

AfterRestart = Callable[[], Coroutine[None, None, None]]


@dataclass(eq=False, slots=True)
class Supervised:
    """A program that is kept up."""

    program: Program
    after_restart: AfterRestart | None = None
    ends: int = 0
    """How often it ended by itself."""

    process: asyncio.subprocess.Process | None = field(default=None, repr=False)
    lines: PipeLines | None = field(default=None, repr=False)
    aftercare: "asyncio.Task[None] | None" = field(default=None, repr=False)
    stopping: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    task: "asyncio.Task[None] | None" = field(default=None, repr=False)

    @property
    def process_id(self) -> int | None:
        """The process that runs now; None between two."""
        return self.process.pid if self.process is not None and self.process.returncode is None else None

    async def wait_until(self, is_ready: Callable[[], Awaitable[bool]], *, seconds: float) -> bool:
        """True when `is_ready` said so in time; false when the program ended before, or the time ran out."""
        ends = self.ends
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self.ends == ends and loop.time() < deadline:
            if await is_ready():
                return True
            await asyncio.sleep(_POLL_SECONDS)
        return False


class Supervisor:
    """Keeps programs up and their lines in `log`."""

    def __init__(self, log: LineLog) -> None:
        self._log = log
        self._children: list[Supervised] = []

    async def start(self, program: Program, after_restart: AfterRestart | None = None) -> Supervised:
        """Start a program and keep it up; `after_restart` runs each time it was started again.

        Raises:
            OSError: it cannot be started at all.
        """
        child = Supervised(program, after_restart)
        await self._spawn(child)
        self._children.append(child)
        child.task = asyncio.create_task(self._keep_up(child), name=f"keep {program.name} up")
        return child

    async def stop(self, *children: Supervised) -> None:
        """End these at the same time, or all that are left, and wait until they are gone.

        Interrupted, it kills what is still there.
        """
        ending = children or tuple(self._children)
        try:
            await asyncio.gather(*(self._end(child) for child in ending))
        finally:
            for child in ending:
                if child.process_id is not None:
                    kill_group(child.process_id)
        self._children = [child for child in self._children if child not in ending]

    async def _end(self, child: Supervised) -> None:
        child.stopping.set()
        if child.task is None:
            return
        for stop_signal in (*child.program.stop_signals, signal.SIGKILL):
            if child.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    child.process.send_signal(stop_signal)
            ended, _ = await asyncio.wait({child.task}, timeout=child.program.stop_seconds)
            if ended:
                break
            self._log.say(f"{child.program.name} did not end on {stop_signal.name}")
        await child.task

    async def _keep_up(self, child: Supervised) -> None:
        wait = FIRST_WAIT_SECONDS
        while True:
            lasted = await self._wait_for_end(child)
            if child.stopping.is_set():
                return
            child.ends += 1
            wait = FIRST_WAIT_SECONDS if lasted >= STEADY_SECONDS else wait
            self._log.say(f"{child.program.name} {_how_it_ended(child)}; starting it again in {wait:g} s")
            if await pause(wait, child.stopping):
                return
            wait = min(MOST_WAIT_SECONDS, 2 * wait)
            await self._spawn_again(child)

    async def _wait_for_end(self, child: Supervised) -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        if child.process is not None:
            await child.process.wait()
            # What it may have started does not outlive it.
            kill_group(child.process.pid)
        if child.lines is not None:
            await child.lines.finish(_LAST_LINES_SECONDS)
        if child.aftercare is not None:
            child.aftercare.cancel()
        return loop.time() - began

    async def _spawn_again(self, child: Supervised) -> None:
        try:
            await self._spawn(child)
        except OSError as error:
            self._log.say(f"{child.program.name} cannot be started: {error}")
            child.process = None
            return
        if child.stopping.is_set() and child.process is not None:
            child.process.send_signal(child.program.stop_signals[0])
        elif child.after_restart is not None:
            child.aftercare = asyncio.create_task(child.after_restart())

    async def _spawn(self, child: Supervised) -> None:
        lines = PipeLines(self._log, child.program.name)
        try:
            child.process = await asyncio.create_subprocess_exec(
                *child.program.argv,
                stdout=lines.write_fd,
                stderr=lines.write_fd,
                **spawn_options(child.program),
            )
        except OSError:
            lines.close()
            raise
        child.lines = lines
        lines.follow()


def _how_it_ended(child: Supervised) -> str:
    code = child.process.returncode if child.process is not None else None
    if code is None:
        return "did not start"
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
