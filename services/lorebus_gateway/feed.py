"""The live tail as server-sent events: an organization hears of its own changes as they happen.

The rule that must not break: a client is told of every change since its `Last-Event-ID`, or that some may be missing.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Final, TypeVar
from uuid import UUID

from lorebus_contracts.http_memory import FeedGap, FeedQuery, FeedReady, GapReason
from lorebus_contracts.topics import MEMORY_CHANGED
from lorebus_gateway import metrics
from lorebus_gateway.answers import Stream
from lorebus_gateway.errors import TooManyRequestsError
from lorebus_gateway.known_scopes import require_agent_config
from lorebus_gateway.server_sent_events import EVENT_STREAM, HEARTBEAT, server_sent_event
from lorebus_gateway.settings import GatewaySettings
from lorebus_kit.tail import Joined, Listener, Lost, News, Tail, Wanted
from lorebus_kit.tail_history import Change, Place, read_place, write_place
from lorebus_store.acting import Tenants
from lorebus_store.database import Database

FEED_FULL_SECONDS: Final = 30
"""When another feed is worth asking for, where an organization has as many as it may."""

GAP: Final = "gap"
READY: Final = "ready"
"""The names of the events that are no change."""

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class FeedLimits:
    """How many feeds an organization may have in one process, for how long, and how far each may be behind."""

    feeds_per_organization: int
    longest_seconds: float
    heartbeat_seconds: float
    queued_changes: int

    @classmethod
    def of(cls, settings: GatewaySettings) -> "FeedLimits":
        """Those that are set."""
        return cls(
            feeds_per_organization=settings.feeds_per_organization,
            longest_seconds=settings.feed_longest_seconds,
            heartbeat_seconds=settings.feed_heartbeat_seconds,
            queued_changes=settings.feed_queue,
        )


class Feed:
    """Opens feeds; all of them listen to one tail."""

    def __init__(self, tail: Tail, database: Database, stopping: asyncio.Event, limits: FeedLimits) -> None:
        self._tail = tail
        self._database = database
        self._stopping = stopping
        self._limits = limits

    async def open(self, organization_uuid: UUID, query: FeedQuery, last_event_id: str | None) -> Stream:
        """The organization's changes from `last_event_id` on; without one, from now on.

        Raises:
            NotFoundError: the organization has no such agent config.
            TooManyRequestsError: it has as many feeds as it may.
            TransientError: the database is away, where an agent config is asked for.
        """
        if self._tail.listeners_of(organization_uuid) >= self._limits.feeds_per_organization:
            raise TooManyRequestsError(FEED_FULL_SECONDS)
        if query.agent_config_uuid is not None:
            async with self._database.read(Tenants.of(organization_uuid)) as connection:
                await require_agent_config(connection, organization_uuid, query.agent_config_uuid)
        wanted = Wanted(organization_uuid, query.agent_config_uuid, query.kind)
        listener = Listener(wanted, most=self._limits.queued_changes)
        return Stream(self._chunks(listener, last_event_id or None), EVENT_STREAM, cut=listener.dropped)

    async def _chunks(self, listener: Listener, last_event_id: str | None) -> AsyncGenerator[bytes, None]:
        ends_at = monotonic() + self._limits.longest_seconds
        with self._tail.listening(listener), _counted(listener):
            # The first heartbeat opens the answer, even while the broker is away.
            yield HEARTBEAT
            while not await self._or_stop(self._tail.begun(self._quiet_seconds(ends_at))):
                if self._is_over(ends_at):
                    return
                yield HEARTBEAT
            since = None if last_event_id is None else read_place(last_event_id)
            joined = await self._tail.join(listener, since)
            if last_event_id is not None and not (joined.is_whole and since is not None):
                reason = GapReason.UNKNOWN_ID if since is None else GapReason.TOO_OLD
                yield _gap(reason, joined.begins_at)
            reader = _Reader(joined.begins_at)
            for change in joined.changes:
                yield reader.replayed(change)
            yield reader.ready(joined)
            while not self._is_over(ends_at):
                news = await self._or_stop(listener.next(self._quiet_seconds(ends_at)))
                yield reader.heartbeat(self._tail.place_of(listener)) if news is None else reader.told(news)

    def _quiet_seconds(self, ends_at: float) -> float:
        """How long the client may hear nothing now: until the next heartbeat, or until the feed is over."""
        return max(0.0, min(self._limits.heartbeat_seconds, ends_at - monotonic()))

    def _is_over(self, ends_at: float) -> bool:
        return self._stopping.is_set() or monotonic() >= ends_at

    async def _or_stop(self, waiting: Coroutine[None, None, ResultT]) -> ResultT | None:
        """What is waited for; None when the gateway begins to stop first."""
        wait = asyncio.create_task(waiting)
        stop = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({wait, stop}, return_when=asyncio.FIRST_COMPLETED)
            return wait.result() if wait.done() else None
        finally:
            wait.cancel()
            stop.cancel()


@contextlib.contextmanager
def _counted(listener: Listener) -> Iterator[None]:
    with metrics.FEEDS.track_inprogress():
        try:
            yield
        finally:
            if listener.dropped.is_set():
                metrics.FEEDS_DROPPED.inc()


class _Reader:
    """Where a client is: each event's id says so."""

    def __init__(self, place: Place) -> None:
        self._place = dict(place)

    def replayed(self, change: Change) -> bytes:
        self._place[change.partition] = change.offset + 1
        return self._event(MEMORY_CHANGED.name, change.data)

    def ready(self, joined: Joined) -> bytes:
        self._place = dict(joined.live_at)
        return self._event(READY, FeedReady(replayed=len(joined.changes)).model_dump_json().encode())

    def told(self, news: News) -> bytes:
        if isinstance(news, Lost):
            self._place = dict(news.place)
            return _gap(GapReason.LOST, news.place)
        self._move_on(news.place)
        return self._event(MEMORY_CHANGED.name, news.change.data)

    def heartbeat(self, place: Place) -> bytes:
        """A comment, which also moves on the id that the client remembers."""
        self._move_on(place)
        return b": heartbeat\nid: " + write_place(self._place).encode() + b"\n\n"

    def _move_on(self, place: Place) -> None:
        """A client that another process had told more keeps its place."""
        for partition, offset in place.items():
            self._place[partition] = max(offset, self._place.get(partition, 0))

    def _event(self, name: str, data: bytes) -> bytes:
        return server_sent_event(name, data, event_id=write_place(self._place))


def _gap(reason: GapReason, place: Place) -> bytes:
    return server_sent_event(
        GAP, FeedGap(reason=reason).model_dump_json().encode(), event_id=write_place(place)
    )
