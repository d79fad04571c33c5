"""What a program prints, read from a pipe as it comes.

Read by hand and not through asyncio's subprocess streams: those cut long lines, and whether waiting for a process
there also waits for the last holder of its output differs between versions of Python.
"""

import asyncio
import contextlib
import os
from typing import Final

from lorebus_ops.line_log import LineLog, LineSplitter

_READ_BYTES: Final = 65_536


class PipeLines:
    """A pipe whose lines go to the log under one name; `write_fd` is for the program."""

    def __init__(self, log: LineLog, name: str) -> None:
        self._splitter = LineSplitter(log, name)
        self._read_fd, self.write_fd = os.pipe()
        self._ended = asyncio.Event()

    def follow(self) -> None:
        """Begin to read; the program has its end by now, and ours is closed."""
        os.close(self.write_fd)
        asyncio.get_running_loop().add_reader(self._read_fd, self._read)

    async def finish(self, seconds: float) -> None:
        """Take the last lines of a program that ended, waiting at most so long for others who hold its output."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), seconds)
        if not self._ended.is_set():
            self._end()

    def close(self) -> None:
        """Let go of a pipe that nobody got."""
        os.close(self.write_fd)
        os.close(self._read_fd)

    def _read(self) -> None:
        data = os.read(self._read_fd, _READ_BYTES)
        if data:
            self._splitter.feed(data)
        else:
            self._end()

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._read_fd)
        os.close(self._read_fd)
        self._splitter.close()
        self._ended.set()
