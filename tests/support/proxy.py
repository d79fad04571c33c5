"""A TCP proxy between the services and a store, which fails as networks do, on command.

It passes bytes on, cuts connections, holds everything back as a broken route does, loses answers, slows down, or meets
the COMMIT of a chosen transaction: holds it back, holds its answer back, or loses its answer after the server has done
the work.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum, auto
from typing import Final

from lorebus_ops.ports import LOOPBACK, free_port

MEET_SECONDS: Final = 60.0
_CHUNK: Final = 64 * 1024
# A simple query of PostgreSQL's protocol: its letter, four bytes of length, the statement, a zero.
_COMMIT: Final = b"COMMIT\x00"
_BEGIN: Final = b"BEGIN"
_STATEMENT_START: Final = 5


class AtCommit(Enum):
    """What happens to a COMMIT that the proxy was told to meet."""

    HOLD_REQUEST = auto()
    """The server never hears of it: the transaction stays open until the proxy is healed, and is rolled back then."""

    DELAY_REQUEST = auto()
    """The server hears of it when the proxy is healed: the transaction stays open so long."""

    HOLD_ANSWER = auto()
    """The server commits, the client waits."""

    LOSE_ANSWER = auto()
    """The server commits, the client's connection breaks."""


class _Link:
    """One client's connection with the one that was opened for it."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.marked = False
        self.answer: AtCommit | None = None

    def abort(self) -> None:
        self.client.transport.abort()
        self.server.transport.abort()


class FaultProxy:
    """Listens on a port of its own before the server at `upstream_port`; both on the loopback address."""

    def __init__(self, upstream_port: int, *, port: int | None = None) -> None:
        self.port = free_port() if port is None else port
        self._upstream_port = upstream_port
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._refuses = False
        self._loses_answers = False
        self._refused_word: bytes | None = None
        self._latency_seconds = 0.0
        self._at_commit: AtCommit | None = None
        self._marker = b""
        self._commit_met = asyncio.Event()
        self._commits_may_pass = asyncio.Event()
        self._commits_may_pass.set()

    async def start(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._accept, LOOPBACK, self.port)

    async def stop(self) -> None:
        """Break every connection and listen no more."""
        if self._server is not None:
            self._server.close()
        self.cut()
        self._open.set()
        self._commits_may_pass.set()
        if self._serving:
            await asyncio.wait(self._serving)

    def heal(self) -> None:
        """Pass everything on again, what was held back included."""
        if self._loses_answers:
            self.break_connections()
        self._loses_answers = False
        self._refuses = False
        self._refused_word = None
        self._latency_seconds = 0.0
        self._at_commit = None
        self._open.set()
        self._commits_may_pass.set()

    def cut(self) -> None:
        """Break every connection and refuse new ones."""
        self._refuses = True
        for link in tuple(self._links):
            link.abort()

    def refuse(self, word: bytes) -> None:
        """Break every connection that sends this word to the server, such as a topic's name."""
        self._refused_word = word

    def break_connections(self) -> None:
        """Break every connection once; new ones work."""
        for link in tuple(self._links):
            link.abort()

    def black_hole(self) -> None:
        """Take everything and pass nothing on, without a word."""
        self._open.clear()

    def lose_answers(self) -> None:
        """Pass every request on and nothing back; healing breaks the connections that lost something."""
        self._loses_answers = True

    def slow_down(self, latency_seconds: float) -> None:
        """Pass each piece on this much later."""
        self._latency_seconds = latency_seconds

    async def meet_commit(self, what: AtCommit, *, marker: bytes) -> None:
        """Do this to the COMMIT of every transaction that sent `marker` to the server; back when it was done to one.

        Raises:
            TimeoutError: no such transaction came to its COMMIT.
        """
        self._at_commit, self._marker = what, marker
        self._commits_may_pass.clear()
        self._commit_met.clear()
        async with asyncio.timeout(MEET_SECONDS):
            await self._commit_met.wait()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._refuses:
                raise ConnectionRefusedError
            upstream, to_upstream = await asyncio.open_connection(LOOPBACK, self._upstream_port)
        except OSError:
            writer.transport.abort()
            return
        link = _Link(writer, to_upstream)
        self._links.add(link)
        try:
            await asyncio.gather(self._requests(reader, link), self._answers(upstream, link))
        finally:
            link.abort()
            self._links.discard(link)

    async def _requests(self, reader: asyncio.StreamReader, link: _Link) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                await self._delayed()
                if not await self._may_pass(link, chunk):
                    link.abort()
                    return
                link.server.write(chunk)
                await link.server.drain()
        link.server.close()

    async def _answers(self, upstream: asyncio.StreamReader, link: _Link) -> None:
        with contextlib.suppress(OSError):
            while chunk := await upstream.read(_CHUNK):
                await self._delayed()
                if self._loses_answers:
                    continue
                if link.answer is not None:
                    self._commit_met.set()
                    if link.answer is AtCommit.LOSE_ANSWER:
                        link.abort()
                        return
                    await self._commits_may_pass.wait()
                    link.answer = None
                link.client.write(chunk)
                await link.client.drain()
        link.client.close()

    async def _delayed(self) -> None:
        await self._open.wait()
        if self._latency_seconds:
            await asyncio.sleep(self._latency_seconds)

    def _is_chosen_commit(self, link: _Link, chunk: bytes) -> bool:
        if chunk.startswith(_BEGIN, _STATEMENT_START):
            link.marked = False
        if self._marker and self._marker in chunk:
            link.marked = True
        return self._at_commit is not None and link.marked and chunk.endswith(_COMMIT)

    async def _may_pass(self, link: _Link, chunk: bytes) -> bool:
        if self._refused_word is not None and self._refused_word in chunk:
            return False
        if not self._is_chosen_commit(link, chunk):
            return True
        if self._at_commit not in {AtCommit.HOLD_REQUEST, AtCommit.DELAY_REQUEST}:
            link.answer = self._at_commit
            return True
        may_pass = self._at_commit is AtCommit.DELAY_REQUEST
        self._commit_met.set()
        await self._commits_may_pass.wait()
        return may_pass


@asynccontextmanager
async def proxy_before(port: int, *, at: int | None = None) -> AsyncIterator[FaultProxy]:
    """A proxy before the server at `port`, listening at `at` or a free port; ended afterwards."""
    proxy = FaultProxy(port, port=at)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
