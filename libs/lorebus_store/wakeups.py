"""Being woken by NOTIFY, over a connection that may come and go.

The rule that must not break: a lost notification or connection costs time only. `wait` always comes back at
its deadline, and a connection that came back counts as a notification, because one may have been missed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Self

import asyncpg

_RECONNECT_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)

Connect = Callable[[], Awaitable[Any]]
"""Makes an asyncpg connection, which ships no types."""


class Wakeups:
    """A listener of one channel; without `connect` it only ever times out."""

    def __init__(self, channel: str, connect: Connect | None) -> None:
        self._channel = channel
        self._connect = connect
        self._woken = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self._connection: Any = None

    @property
    def is_connected(self) -> bool:
        """Whether notifications arrive now."""
        return self._connection is not None and not self._connection.is_closed()

    async def wait(self, timeout_seconds: float) -> bool:
        """Come back at the next notification (True), or after `timeout_seconds` (False)."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    async def __aenter__(self) -> Self:
        """Begin to listen, in the background."""
        if self._connect is not None:
            self._listening = asyncio.create_task(self._listen(self._connect), name=f"listen:{self._channel}")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening and close the connection."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])

    async def _listen(self, connect: Connect) -> None:
        failures = 0
        while True:
            try:
                await self._listen_once(connect)
                failures = 0
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                failures += 1
            await asyncio.sleep(_RECONNECT_SECONDS[min(failures, len(_RECONNECT_SECONDS) - 1)])

    async def _listen_once(self, connect: Connect) -> None:
        """Listen until the connection ends."""
        connection = await connect()
        try:
            ended = asyncio.Event()
            connection.add_termination_listener(lambda _: ended.set())
            await connection.add_listener(self._channel, lambda *_: self._woken.set())
            self._connection = connection
            self._woken.set()
            await ended.wait()
        finally:
            self._connection = None
            connection.terminate()
