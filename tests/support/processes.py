"""What tests ask of processes and of time."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from lorebus_ops.line_log import LineLog
from tests.support.outputs import OUTPUTS

DEADLINE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.01


async def eventually(condition: Callable[[], object], *, seconds: float = DEADLINE_SECONDS) -> None:
    """Wait until the condition holds; the test fails when it never does."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "the condition never held"
        await asyncio.sleep(_POLL_SECONDS)


def is_gone(process_id: int) -> bool:
    """True when the process ended, also when nobody asked yet how."""
    try:
        return psutil.Process(process_id).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def family(process_id: int) -> list[int]:
    """The process and all that descend from it."""
    process = psutil.Process(process_id)
    return [process_id, *(child.pid for child in process.children(recursive=True))]


@contextmanager
def line_log(folder: Path) -> Iterator[LineLog]:
    """A log in this folder."""
    log = LineLog(folder / "lorebus.log")
    try:
        yield log
    finally:
        log.close()
        OUTPUTS.search("the log of a local stack", log.path.read_text(errors="replace"))


def lines_of(log: LineLog) -> list[str]:
    """Its lines so far."""
    return log.path.read_text().splitlines()
