"""The pages on words and events: what they say can be read off the code, so it is."""

import re
from typing import Final

import pytest

from lorebus_contracts.asyncapi import KEYS, WRITERS
from lorebus_contracts.events import EVENTS, Event
from lorebus_contracts.wire import parse
from tests.contract.golden_files import ROOT

GLOSSARY: Final = ROOT / "docs" / "glossary.md"
EVENTS_PAGE: Final = ROOT / "docs" / "architecture" / "events.md"

every_event = pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.topic.name)


def glossary() -> dict[str, str]:
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    return dict(rows[1:])


def section(event: type[Event]) -> str:
    """The part of the page on one topic."""
    page = EVENTS_PAGE.read_text(encoding="utf-8")
    return page.partition(f"\n## {event.topic.name}\n")[2].partition("\n## ")[0]


def fields_told(text: str) -> dict[str, bool]:
    """The fields of a table, and whether it says that they are required."""
    rows = re.findall(r"^\| `(\w+)` \| (yes|no)\b", text, re.MULTILINE)
    return {name: answer == "yes" for name, answer in rows}


def required(event: type[Event], *, inherited: bool) -> dict[str, bool]:
    """The fields of the envelope, or the event's own, and whether they are required."""
    return {
        name: field.is_required()
        for name, field in event.model_fields.items()
        if (name in Event.model_fields) is inherited
    }


def test_the_glossary_is_in_alphabetical_order() -> None:
    words = list(glossary())

    assert words == sorted(words, key=lambda word: word.replace("_", " ").lower())


def test_the_glossary_explains_the_words_of_the_product_and_of_delivery() -> None:
    words = {
        "organization",
        "agent config",
        "session",
        "caller",
        "principal_ref",
        "memory entry",
        "shared pool",
        "fingerprint",
        "reinforce",
        "recall",
        "cue",
        "label",
        "workflow run",
        "topic",
        "key",
        "partition",
        "offset",
        "consumer group",
        "lag",
        "redelivery",
        "dead letter",
        "inbox",
        "outbox",
        "relay",
        "lease",
        "sweeper",
        "claim",
        "verdict",
    }

    assert words - set(glossary()) == set()


@every_event
def test_the_page_tells_every_field_of_an_event(event: type[Event]) -> None:
    assert fields_told(section(event)) == required(event, inherited=False)


@every_event
def test_the_page_tells_every_field_of_the_envelope(event: type[Event]) -> None:
    envelope = EVENTS_PAGE.read_text(encoding="utf-8").partition("Every event carries:")[2]

    assert fields_told(envelope.partition("\n## ")[0]) == required(event, inherited=True)


@every_event
def test_the_example_of_an_event_is_one_with_every_field(event: type[Event]) -> None:
    (example,) = re.findall("```json\n(.*?)```", section(event), re.DOTALL)

    assert parse(event, example.encode()).model_fields_set == set(event.model_fields)


@every_event
def test_the_page_tells_key_and_writers_and_groups_of_a_topic(event: type[Event]) -> None:
    name = event.topic.name
    page = EVENTS_PAGE.read_text(encoding="utf-8").replace(r"\|", "¦")

    (row,) = re.findall(rf"^\| `{re.escape(name)}` \| `(.+)` \| (.+) \| (.+) \|$", page, re.MULTILINE)

    key, writers, readers = row
    assert key == KEYS[name].replace("|", "¦")
    assert writers == ", ".join(WRITERS[name])
    assert tuple(re.findall("`(.+?)`", readers)) == event.topic.groups
