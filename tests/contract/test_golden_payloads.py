"""Golden payloads: what was ever published still parses; new ones are added, old ones never edited.

A new payload is a file `golden/<topic>/v<version>/<name>.json` and its line of `sha256sum` in `golden.sha256`.
"""

import json
from pathlib import Path

import pytest
from pydantic import BaseModel

from lorebus_contracts.events import EVENTS, Event, SessionEnded
from lorebus_contracts.topics import TOPICS
from lorebus_contracts.wire import parse
from tests.contract.golden_files import (
    GOLDEN,
    PAYLOADS,
    SESSIONS,
    checksum_of,
    event_of,
    name_of,
    published,
)

every_payload = pytest.mark.parametrize("payload", PAYLOADS, ids=name_of)
every_event = pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.topic.name)


def payloads_of(event: type[Event]) -> list[Path]:
    return [payload for payload in PAYLOADS if event_of(payload) is event]


@every_payload
def test_a_golden_payload_still_parses(payload: Path) -> None:
    event = parse(event_of(payload), payload.read_bytes())

    assert event.schema_version == 1


@every_payload
def test_a_golden_payload_survives_being_written_and_read_again(payload: Path) -> None:
    event = parse(event_of(payload), payload.read_bytes())

    assert parse(event_of(payload), event.model_dump_json().encode()) == event


@every_payload
def test_a_golden_payload_loses_nothing_when_read(payload: Path) -> None:
    raw = json.loads(payload.read_bytes())

    written = json.loads(parse(event_of(payload), payload.read_bytes()).model_dump_json(exclude_unset=True))

    assert {**written, "occurred_at": raw["occurred_at"]} == raw


@every_payload
def test_a_golden_payload_is_never_edited(payload: Path) -> None:
    assert published().get(name_of(payload)) == checksum_of(payload), (
        "a published payload stays as it is: undo the edit and add a new file; a new file needs its line in "
        "golden.sha256 (in tests/contract/golden: `sha256sum <topic>/v1/<name>.json >> golden.sha256`)"
    )


def test_a_golden_payload_is_never_taken_away() -> None:
    assert sorted(published()) == [name_of(payload) for payload in PAYLOADS]


def test_every_topic_has_one_event() -> None:
    assert [event.topic for event in EVENTS] == list(TOPICS)


@every_event
def test_a_minimal_payload_has_the_required_fields_and_no_other(event: type[Event]) -> None:
    raw = json.loads((GOLDEN / event.topic.name / "v1" / "minimal.json").read_bytes())

    assert sorted(raw) == sorted(name for name, field in event.model_fields.items() if field.is_required())


@every_event
def test_every_field_of_an_event_is_in_a_golden_payload(event: type[Event]) -> None:
    seen: set[str] = set()
    for payload in payloads_of(event):
        seen |= fields_set("", parse(event, payload.read_bytes()))

    assert sorted(fields_of("", event) - seen) == []


def fields_set(path: str, value: object) -> set[str]:
    """The dotted path of every field that somebody gave, through models and arrays of them."""
    if isinstance(value, tuple):
        return set().union(*(fields_set(path, item) for item in value))
    if not isinstance(value, BaseModel):
        return set()
    given = {f"{path}.{name}" for name in value.model_fields_set}
    below = (fields_set(f"{path}.{name}", getattr(value, name)) for name in value.model_fields_set)
    return given.union(*below)


def fields_of(path: str, model: type[BaseModel]) -> set[str]:
    """The dotted path of every field that there is."""
    found: set[str] = set()
    for name, field in model.model_fields.items():
        found.add(f"{path}.{name}")
        for inner in models_in(field.annotation):
            found |= fields_of(f"{path}.{name}", inner)
    return found


def models_in(annotation: object) -> list[type[BaseModel]]:
    """The models that an annotation mentions: itself, an option of a union, the item of an array."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in models_in(part)]


def test_all_real_sessions_parse_as_session_ended() -> None:
    lines = SESSIONS.read_bytes().splitlines()

    sessions = [parse(SessionEnded, line) for line in lines]

    assert len(sessions) == 43
    assert len({session.event_id for session in sessions}) == 43
    assert {session.outcome for session in sessions} == {"success", "failed"}
