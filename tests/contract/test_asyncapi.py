"""The AsyncAPI document: what is committed is what the topics and events say, and it says the truth."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiokafka import ConsumerRecord

from lorebus_contracts.asyncapi import DEAD_LETTER_HEADERS, KEYS, UNDECODABLE_NAMES_HEADER, main
from lorebus_contracts.wire import parse
from lorebus_kit.dead_letters import dead_letter
from tests.contract.golden_files import ASYNCAPI, PAYLOADS, event_of, name_of

HOW = "run `.venv/bin/python -m lorebus_contracts.asyncapi > docs/asyncapi.json`"


def document() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(ASYNCAPI.read_bytes())
    return loaded


def test_the_document_is_what_topics_and_events_say(capsys: pytest.CaptureFixture[str]) -> None:
    main()

    assert ASYNCAPI.read_text(encoding="utf-8") == capsys.readouterr().out, HOW


def test_every_topic_and_every_dead_letter_topic_is_a_channel() -> None:
    assert list(document()["channels"]) == [
        "session.ended",
        "session.rated",
        "memory.save-requested",
        "memory.prune-requested",
        "recall.recorded",
        "memory.changed",
        "session.ended.lorebus.distill.dlq",
        "session.ended.lorebus.labels.dlq",
        "session.rated.lorebus.labels.dlq",
        "memory.save-requested.lorebus.save.dlq",
        "memory.prune-requested.lorebus.prune.dlq",
        "recall.recorded.lorebus.labels.dlq",
    ]


def test_every_consumer_group_is_an_operation_that_receives() -> None:
    groups = {
        name: operation["bindings"]["kafka"]["groupId"]["const"]
        for name, operation in document()["operations"].items()
        if "bindings" in operation
    }

    assert groups == {
        "receive.session.ended.lorebus.distill": "lorebus.distill",
        "receive.session.ended.lorebus.labels": "lorebus.labels",
        "receive.session.rated.lorebus.labels": "lorebus.labels",
        "receive.memory.save-requested.lorebus.save": "lorebus.save",
        "receive.memory.prune-requested.lorebus.prune": "lorebus.prune",
        "receive.recall.recorded.lorebus.labels": "lorebus.labels",
    }


def test_every_reference_leads_somewhere() -> None:
    whole = document()

    for reference in references(whole):
        assert found(whole, reference), reference


@pytest.mark.parametrize("payload", PAYLOADS, ids=name_of)
def test_a_key_is_made_up_as_the_document_says(payload: Path) -> None:
    event = parse(event_of(payload), payload.read_bytes())
    values = {name: "" if value is None else str(value) for name, value in event}

    assert event.key().decode() == KEYS[event.topic.name].format_map(values)


def test_a_dead_letter_has_the_headers_that_the_document_says() -> None:
    record = ConsumerRecord(
        topic="session.rated",
        partition=3,
        offset=7,
        timestamp=0,
        timestamp_type=0,
        key=b"key",
        value=b"value",
        checksum=None,
        serialized_key_size=3,
        serialized_value_size=5,
        headers=[("\udcff", b"value")],
    )

    told = [
        name
        for name, _ in dead_letter(record, topic="x.dlq", group="lorebus.labels", error=ValueError()).headers
    ]

    assert told == [*DEAD_LETTER_HEADERS, UNDECODABLE_NAMES_HEADER]


def references(value: object) -> list[str]:
    """Every `$ref` in a document."""
    if isinstance(value, list):
        return [reference for item in value for reference in references(item)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    return [*own, *(reference for item in value.values() for reference in references(item))]


def found(whole: dict[str, Any], reference: str) -> bool:
    """Whether a local reference leads to something."""
    here: object = whole
    for part in reference.removeprefix("#/").split("/"):
        if not isinstance(here, dict) or part not in here:
            return False
        here = here[part]
    return True
