"""Child processes that end with us.

The rule that must not break: a child never outlives the process that started it, also when that one is killed. On
Linux the kernel sees to it (PR_SET_PDEATHSIG); elsewhere only an orderly end does. The kernel watches the *thread*
that started the child, so start children from the main thread.
"""

import contextlib
import ctypes
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Final, TypedDict

_PR_SET_PDEATHSIG: Final = 1
_POLL_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class Account:
    """The user that a child runs as when we are root and it must not be."""

    user_id: int
    group_id: int


@dataclass(frozen=True, slots=True)
class Program:
    """What to run as a child, and how to end it."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] | None = None
    """The whole environment; None is our own."""

    account: Account | None = None
    pass_fds: tuple[int, ...] = ()
    stop_signals: tuple[signal.Signals, ...] = (signal.SIGTERM,)
    """Sent one after the other, each with `stop_seconds` to take effect; SIGKILL comes last by itself."""

    stop_seconds: float = 30.0
    death_signal: signal.Signals = signal.SIGKILL
    """What the kernel sends when we die; SIGKILL unless the program ends surely, and with less harm, on another."""


class SpawnOptions(TypedDict):
    """The keyword arguments of `subprocess.Popen` and of `asyncio.create_subprocess_exec` for a program."""

    env: Mapping[str, str] | None
    user: int | None
    group: int | None
    extra_groups: list[int] | None
    cwd: str | None
    pass_fds: tuple[int, ...]
    process_group: int
    stdin: int
    preexec_fn: Callable[[], None] | None


def spawn_options(program: Program) -> SpawnOptions:
    """How to start the program: in a process group of its own, so that Ctrl-C reaches only us, and tied to us."""
    account = program.account
    return {
        "env": program.env,
        "user": account.user_id if account else None,
        "group": account.group_id if account else None,
        "extra_groups": [] if account else None,
        # Our own folder may be one that the account cannot enter.
        "cwd": "/" if account else None,
        "pass_fds": program.pass_fds,
        "process_group": 0,
        "stdin": subprocess.DEVNULL,
        "preexec_fn": _tied_to_us(program.death_signal),
    }


def kill_group(process_id: int) -> None:
    """Kill what is left of the process group that `process_id` led."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process_id, signal.SIGKILL)


@dataclass(slots=True)
class Child:
    """A started program that nobody supervises; its owner stops it."""

    program: Program
    process: subprocess.Popen[bytes] = field(repr=False)

    @classmethod
    def start(cls, program: Program, output: IO[bytes] | int = subprocess.DEVNULL) -> "Child":
        """Start the program; both its outputs go to `output`."""
        # The hook calls one function of the C library and allocates nothing, so threads cannot deadlock it.
        process = subprocess.Popen(  # noqa: S603 - Programs are written by this package.
            program.argv, stdout=output, stderr=subprocess.STDOUT, **spawn_options(program)
        )
        return cls(program, process)

    @property
    def process_id(self) -> int:
        """Also the number of its process group."""
        return self.process.pid

    @property
    def runs(self) -> bool:
        """False once it ended."""
        return self.process.poll() is None

    def stop(self) -> None:
        """End it and wait: its stop signals one after the other, then SIGKILL to its whole group."""
        if not self.runs:
            return
        try:
            for stop_signal in self.program.stop_signals:
                self.process.send_signal(stop_signal)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(self.program.stop_seconds)
                    return
        finally:
            kill_group(self.process_id)
            self.process.wait()

    def kill(self) -> None:
        """End it as a crash would."""
        if not self.runs:
            return
        kill_group(self.process_id)
        self.process.wait()

    def wait_until(self, is_ready: Callable[[], bool], *, seconds: float) -> bool:
        """True when `is_ready` said so in time; false when the child ended or the time ran out."""
        deadline = time.monotonic() + seconds
        while self.runs and time.monotonic() < deadline:
            if is_ready():
                return True
            time.sleep(_POLL_SECONDS)
        return False


def _tied_to_us(death_signal: signal.Signals) -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    prctl = _prctl()
    us = os.getpid()

    def tie() -> None:
        # A change of user clears the request, and this runs after that change.
        prctl(_PR_SET_PDEATHSIG, death_signal)
        if os.getppid() != us:
            os._exit(1)  # We died before the kernel was asked.

    return tie


@functools.cache
def _prctl() -> Callable[[int, int], int]:
    prctl: Callable[[int, int], int] = ctypes.CDLL(None).prctl
    return prctl
