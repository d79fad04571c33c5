"""What `lorebus tail` does: the live feed in a terminal, over any number of connections.

The rule that must not break: it goes on behind the last event that was told, so that none is told twice or left out
unless a line says so.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from lorebus_contracts.topics import MEMORY_CHANGED
from lorebus_kit.backoff import Backoff
from lorebus_ops.answers import carried_out, note, say, say_json
from lorebus_ops.errors import UnreachableError
from lorebus_ops.gateway_client import MEMORY, gateway, sound

_TOO_MANY: Final = 429


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """An event of the feed: a change (`memory.changed`), `ready`, or `gap`."""

    id: str | None
    name: str
    data: Mapping[str, Any]


class FeedReader:
    """Reads server-sent events from lines; `last_id` is what a client goes on from."""

    def __init__(self, last_id: str | None) -> None:
        self.last_id = last_id
        self.begin()

    def begin(self) -> None:
        """A connection begins: half an event of the one before is forgotten, and its id with it."""
        self._id = self.last_id
        self._name = ""
        self._data = ""

    def take(self, line: str) -> FeedEvent | None:
        """The event that ends with this line, if one does."""
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "id":
            self._id = value
        elif field == "event":
            self._name = value
        elif field == "data":
            self._data += value
        elif not line:
            return self._ended()
        return None

    def _ended(self) -> FeedEvent | None:
        """A heartbeat, which has no data, moves the id on too."""
        self.last_id = self._id
        event = FeedEvent(self.last_id, self._name, json.loads(self._data)) if self._data else None
        self._name = self._data = ""
        return event


def follow(conditions: Mapping[str, str], *, since: str | None, count: int | None, as_json: bool) -> None:
    """Tell changes until there are `count`, or for ever.

    Raises:
        typer.Exit: 1, the gateway refused; 3, at the beginning it could not be reached.
    """
    try:
        carried_out(_follow(conditions, since, count, as_json=as_json))
    except KeyboardInterrupt:
        return


async def _follow(
    conditions: Mapping[str, str], since: str | None, count: int | None, *, as_json: bool
) -> None:
    told = 0
    async with aclosing(_events(conditions, FeedReader(since))) as events:
        async for event in events:
            if as_json:
                say_json({"id": event.id, "event": event.name, "data": event.data}, indent=None)
            else:
                _tell(event)
            told += event.name == MEMORY_CHANGED.name
            if told == count:
                return


async def _events(conditions: Mapping[str, str], reader: FeedReader) -> AsyncGenerator[FeedEvent, None]:
    backoff = Backoff(most_seconds=10.0)
    has_begun = False
    while True:
        try:
            async with aclosing(_connection(conditions, reader)) as connection:
                async for event in connection:
                    has_begun = True
                    backoff.reset()
                    yield event
        except UnreachableError as error:
            if not has_begun:
                raise
            note(f"{error}; trying again")
        await asyncio.sleep(backoff.next_seconds())


async def _connection(conditions: Mapping[str, str], reader: FeedReader) -> AsyncGenerator[FeedEvent, None]:
    reader.begin()
    headers = {} if reader.last_id is None else {"last-event-id": reader.last_id}
    async with (
        gateway() as client,
        client.stream("GET", f"{MEMORY}/feed", params=conditions, headers=headers) as answer,
    ):
        if answer.status_code == _TOO_MANY:
            raise UnreachableError("the organization has as many feeds at this gateway as it may")
        await sound(answer)
        async for line in answer.aiter_lines():
            event = reader.take(line)
            if event is not None:
                yield event


def _tell(event: FeedEvent) -> None:
    data = event.data
    if event.name == MEMORY_CHANGED.name:
        at = datetime.fromisoformat(data["occurred_at"]).astimezone()
        ids = " ".join(data["ids"])
        say(f"{at:%H:%M:%S} {data['kind']:<10} {data['count']:>4}  {data['agent_config_uuid']}  {ids}")
    elif event.name == "gap":
        note(f"changes may be missing here ({data['reason']})")
    else:
        note(f"live from here; {data.get('replayed', 0)} earlier changes were caught up on")
