"""What is asked of the database for every request and hardly ever changes: remembered for seconds, forgotten when told.

The rule that must not break: once a change was answered or heard of, nothing from before it is remembered any more,
also not by whoever had asked before it and was told after.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from time import monotonic
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from lorebus_store.database import Database
from lorebus_store.settings import CHANGES

_MAX_REMEMBERED: Final = 10_000
_LISTEN_SECONDS: Final = 60.0

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")


class _Kept(NamedTuple, Generic[ValueT]):
    value: ValueT
    until: float


class Remembered(Generic[KeyT, ValueT]):
    """Values by key, each for `seconds`; that there is none is not remembered."""

    def __init__(self, *, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._kept: dict[KeyT, _Kept[ValueT]] = {}
        self._times_forgotten = 0

    async def get(self, key: KeyT, ask: Callable[[], Awaitable[ValueT | None]]) -> ValueT | None:
        """The value, asked for where it is not remembered."""
        kept = self._kept.get(key)
        if kept is not None and self._clock() < kept.until:
            return kept.value
        before = self._times_forgotten
        value = await ask()
        if value is not None and before == self._times_forgotten:
            if len(self._kept) >= _MAX_REMEMBERED:
                self._kept.clear()
            self._kept[key] = _Kept(value, self._clock() + self._seconds)
        return value

    def forget(self) -> None:
        """Ask anew for everything."""
        self._kept.clear()
        self._times_forgotten += 1


class Forgets(Protocol):
    """What remembers, and can be told to forget."""

    def forget(self) -> None:
        """Ask anew for everything."""


class Changes:
    """Has everything forgotten when settings or keys change: here at once, by another gateway when it is heard of.

    While nothing is heard, behind a pooler or over a broken connection, what is remembered is as old as its seconds.
    """

    def __init__(self, database: Database, remembering: Sequence[Forgets]) -> None:
        self._database = database
        self._remembering = remembering

    def forget(self) -> None:
        """Settings or keys have changed."""
        for one in self._remembering:
            one.forget()

    async def run(self, stop: asyncio.Event) -> None:
        """Listen until `stop` is set."""
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(self._listen())
            await stop.wait()
            listening.cancel()

    async def _listen(self) -> None:
        async with self._database.listen(CHANGES) as wakeups:
            while True:
                if await wakeups.wait(_LISTEN_SECONDS):
                    self.forget()
