"""Dead letters as a person looks at them: where each came from, why it is there, and what has been done about it.

Kafka forgets no single record: a letter that was handled stays in its topic until its time is over. That it was handled
is a record of the same topic, a *mark*, which is younger than its letter and so outlives it.

The rule that must not break: a letter's own key, value and headers come back exactly as the consumer had them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from aiokafka import ConsumerRecord

from lorebus_contracts.events import EVENTS, Event
from lorebus_contracts.topics import TOPICS, Topic
from lorebus_contracts.wire import WireError, parse
from lorebus_kit.bus import Headers, Record
from lorebus_kit.dead_letters import (
    FIRST_TOLD,
    HEADER_PREFIX,
    NO_VALUE,
    UndecodableHeaderError,
    check_headers,
)

MARK_HEADER: Final = HEADER_PREFIX + "handled"
MARK_PLACE_HEADER: Final = HEADER_PREFIX + "letter"
_MODELS: Final[Mapping[str, type[Event]]] = {event.topic.name: event for event in EVENTS}


class Handled(StrEnum):
    """What was done about a letter."""

    REPLAYED = "replayed"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class DeadTopic:
    """A dead-letter topic: whose records, and which group gave them up."""

    origin: Topic
    group: str

    @property
    def name(self) -> str:
        """Without its prefix."""
        return self.origin.dead_letters(self.group)


DEAD_TOPICS: Final = tuple(DeadTopic(topic, group) for topic in TOPICS for group in topic.groups)


@dataclass(frozen=True, slots=True, order=True)
class LetterPlace:
    """Where a letter is, written `<dead-letter topic>/<partition>/<offset>`, the topic without its prefix."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"

    @classmethod
    def read(cls, written: str) -> "LetterPlace":
        """The place.

        Raises:
            ValueError: it is not written so, or there is no such dead-letter topic.
        """
        topic, *numbers = written.rsplit("/", 2)
        two = 2
        if len(numbers) != two or not all(number.isdecimal() for number in numbers):
            raise ValueError(f"{written!r} is no letter: give <dead-letter topic>/<partition>/<offset>")
        if topic not in {dead.name for dead in DEAD_TOPICS}:
            known = ", ".join(dead.name for dead in DEAD_TOPICS)
            raise ValueError(f"there is no dead-letter topic {topic!r}; there are {known}")
        return cls(topic, int(numbers[0]), int(numbers[1]))


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter.

    `headers` are the record's own; `told` is what the consumer wrote behind them, without `lorebus-`. `event` is None
    where the value cannot be read, and `fault` then says why, without its content.
    """

    place: LetterPlace
    dead: DeadTopic
    key: bytes | None
    value: bytes | None
    headers: Headers
    told: Mapping[str, str]
    written_at: datetime
    event: Event | None
    fault: str | None

    @property
    def event_id(self) -> UUID | None:
        """Whose event it is, also where only that can be read."""
        return self.event.event_id if self.event is not None else _uuid_in(self.value, "event_id")

    @property
    def organization_uuid(self) -> UUID | None:
        """Of which organization, as `event_id`."""
        return (
            self.event.organization_uuid
            if self.event is not None
            else _uuid_in(self.value, "organization_uuid")
        )

    @property
    def at(self) -> datetime:
        """When it was set aside."""
        try:
            return datetime.fromisoformat(self.told.get("dead-lettered-at", ""))
        except ValueError:
            return self.written_at


@dataclass(frozen=True, slots=True)
class Mark:
    """That a letter was handled."""

    place: LetterPlace
    handled: Handled


def letter_of(record: ConsumerRecord, dead: DeadTopic) -> Letter:
    """The letter that a record of a dead-letter topic is."""
    headers = list(record.headers)
    names = [name for name, _ in headers]
    # An own header of the same name stands before what the consumer told.
    first_told = HEADER_PREFIX + FIRST_TOLD
    own = len(names) - 1 - names[::-1].index(first_told) if first_told in names else len(names)
    told = {
        name.removeprefix(HEADER_PREFIX): (value or b"").decode(errors="replace")
        for name, value in headers[own:]
    }
    event, fault = _read(dead.origin, record.value)
    return Letter(
        place=LetterPlace(dead.name, record.partition, record.offset),
        dead=dead,
        key=record.key,
        value=None if NO_VALUE in told else record.value,
        headers=tuple(headers[:own]),
        told=told,
        written_at=datetime.fromtimestamp(record.timestamp / 1000, UTC),
        event=event,
        fault=fault,
    )


def mark_of(record: ConsumerRecord, dead: DeadTopic) -> Mark | None:
    """The mark that a record of a dead-letter topic is; None for a letter."""
    told = dict(record.headers)
    handled, place = told.get(MARK_HEADER), told.get(MARK_PLACE_HEADER)
    if record.value is not None or handled is None or place is None:
        return None
    try:
        return Mark(LetterPlace.read(f"{dead.name}/{place.decode()}"), Handled(handled.decode()))
    except ValueError:
        return None


def mark_record(place: LetterPlace, handled: Handled) -> Record:
    """The record that marks a letter as handled."""
    within = f"{place.partition}/{place.offset}".encode()
    return Record(
        topic=place.topic,
        # The client sends no record that has neither key nor value.
        key=within,
        value=None,
        headers=(
            (MARK_HEADER, handled.value.encode()),
            (MARK_PLACE_HEADER, within),
            (HEADER_PREFIX + "handled-at", datetime.now(UTC).isoformat().encode()),
        ),
    )


def header_fault(headers: Headers) -> str | None:
    """Why no consumer could read these headers; None where it can."""
    try:
        check_headers(headers)
    except UndecodableHeaderError as error:
        return str(error)
    return None


def _read(topic: Topic, value: bytes | None) -> tuple[Event | None, str | None]:
    try:
        return parse(_MODELS[topic.name], value or b""), None
    except WireError as error:
        return None, str(error)


def _uuid_in(value: bytes | None, name: str) -> UUID | None:
    try:
        told = json.loads(value or b"")
        return UUID(told[name])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
