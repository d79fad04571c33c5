"""The bus as an AsyncAPI 3.0 document, made from the topics and the events.

The rule that must not break: nothing in it is said a second time by hand but who writes a topic and how its key
is made up, which tests hold to the events. `python -m lorebus_contracts.asyncapi` prints it; `docs/asyncapi.json`
is that output.
"""

import sys
from collections.abc import Mapping
from typing import Final

from pydantic.json_schema import models_json_schema

from lorebus_contracts import topics
from lorebus_contracts.events import EVENTS, Event
from lorebus_contracts.schemas import JsonObject, as_text
from lorebus_contracts.topics import Topic

KAFKA_BINDING: Final = "0.5.0"
DEAD_LETTER: Final = "DeadLetter"

WRITERS: Final[Mapping[str, tuple[str, ...]]] = {
    topics.SESSION_ENDED.name: ("session runtime", "gateway"),
    topics.SESSION_RATED.name: ("session runtime", "gateway"),
    topics.SAVE_REQUESTED.name: ("gateway", "distill"),
    topics.PRUNE_REQUESTED.name: ("save", "gateway"),
    topics.RECALL_RECORDED.name: ("gateway",),
    topics.MEMORY_CHANGED.name: ("save", "prune", "labeller", "gateway"),
}
"""Who writes each topic, as ARCHITECTURE.md, "Topics", has it."""

_SESSION_KEY: Final = "{session_uuid}"
_CONFIG_KEY: Final = "{agent_config_uuid}"
KEYS: Final[Mapping[str, str]] = {
    topics.SESSION_ENDED.name: _SESSION_KEY,
    topics.SESSION_RATED.name: _SESSION_KEY,
    topics.SAVE_REQUESTED.name: "{agent_config_uuid}|{principal_ref}",
    topics.PRUNE_REQUESTED.name: _CONFIG_KEY,
    topics.RECALL_RECORDED.name: _SESSION_KEY,
    topics.MEMORY_CHANGED.name: _CONFIG_KEY,
}
"""How a record's key is made up of its event's fields; a null is left empty."""

DEAD_LETTER_HEADERS: Final[Mapping[str, str]] = {
    "lorebus-origin-topic": "The topic that the record was read from.",
    "lorebus-origin-partition": "Its partition, as decimal digits.",
    "lorebus-origin-offset": "Its offset, as decimal digits.",
    "lorebus-origin-group": "The consumer group that gave up.",
    "lorebus-error-type": "The kind of error.",
    "lorebus-error-text": "What is wrong, in one line without the record's content.",
    "lorebus-dead-lettered-at": "When: RFC 3339, in UTC.",
}
"""What every dead letter tells besides the original's own headers."""

UNDECODABLE_NAMES_HEADER: Final = "lorebus-undecodable-header-names"


def asyncapi() -> JsonObject:
    """The whole document."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Lorebus",
            "version": "1.0.0",
            "description": (
                "The memory of a fleet of AI agents, as seen from its Kafka bus. Every event comes at least once;"
                " what it causes happens once, by its `event_id`."
            ),
        },
        "defaultContentType": "application/json",
        "channels": _channels(),
        "operations": _operations(),
        "components": {"messages": _messages(), "schemas": _schemas()},
    }


def main() -> None:
    """Print the document."""
    sys.stdout.write(as_text(asyncapi()))


def _channels() -> JsonObject:
    channels: JsonObject = {
        event.topic.name: _channel(event.topic.name, event.topic.description, event.__name__)
        for event in EVENTS
    }
    for topic, group in _readings():
        dead = topic.dead_letters(group)
        channels[dead] = _channel(dead, f"What {group} could not handle of {topic.name}.", DEAD_LETTER)
    return channels


def _channel(address: str, description: str, message: str) -> JsonObject:
    most_bytes = topics.MAX_DEAD_LETTER_BYTES if message == DEAD_LETTER else topics.MAX_RECORD_BYTES
    return {
        "address": address,
        "description": description,
        "messages": {message: {"$ref": f"#/components/messages/{message}"}},
        "bindings": {
            "kafka": {
                "topic": address,
                "topicConfiguration": {"max.message.bytes": most_bytes},
                "bindingVersion": KAFKA_BINDING,
            }
        },
    }


def _operations() -> JsonObject:
    operations: JsonObject = {}
    for event in EVENTS:
        name = event.topic.name
        writers = ", ".join(WRITERS[name])
        operations[f"send.{name}"] = _operation("send", name, event.__name__, f"Written by: {writers}.")
    for topic, group in _readings():
        message, dead = _event_of(topic).__name__, topic.dead_letters(group)
        operations[f"receive.{topic.name}.{group}"] = {
            **_operation("receive", topic.name, message, f"Read by the consumer group {group}."),
            "bindings": {
                "kafka": {
                    "groupId": {"type": "string", "const": group},
                    "bindingVersion": KAFKA_BINDING,
                }
            },
        }
        operations[f"send.{dead}"] = _operation(
            "send", dead, DEAD_LETTER, f"Written by {group}, read by a person with `lorebus dlq`."
        )
    tail = topics.MEMORY_CHANGED
    operations[f"receive.{tail.name}"] = _operation(
        "receive",
        tail.name,
        _event_of(tail).__name__,
        "Read by the gateway's live tail, each process from the end and without a group; by anyone else too.",
    )
    return operations


def _operation(action: str, channel: str, message: str, summary: str) -> JsonObject:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "summary": summary,
        "messages": [{"$ref": f"#/channels/{channel}/messages/{message}"}],
    }


def _messages() -> JsonObject:
    messages: JsonObject = {event.__name__: _message(event) for event in EVENTS}
    messages[DEAD_LETTER] = {
        "name": DEAD_LETTER,
        "summary": "A record as it was read, key, bytes and headers untouched, with where it came from and why.",
        "contentType": "application/octet-stream",
        "headers": _dead_letter_headers(),
        "payload": {"description": "The original bytes, whatever they are."},
    }
    return messages


def _dead_letter_headers() -> JsonObject:
    told = {
        **DEAD_LETTER_HEADERS,
        UNDECODABLE_NAMES_HEADER: "Names of the original's headers that are not UTF-8, in hex; only if any.",
    }
    return {
        "type": "object",
        "properties": {
            name: {"type": "string", "description": description} for name, description in told.items()
        },
        "required": list(DEAD_LETTER_HEADERS),
    }


def _message(event: type[Event]) -> JsonObject:
    summary = (event.__doc__ or "").partition("\n")[0]
    key = {"type": "string", "description": f"Made up as `{KEYS[event.topic.name]}`, in UTF-8."}
    return {
        "name": event.__name__,
        "summary": summary,
        "contentType": "application/json",
        "payload": {"$ref": f"#/components/schemas/{event.__name__}"},
        "bindings": {"kafka": {"key": key, "bindingVersion": KAFKA_BINDING}},
    }


def _schemas() -> JsonObject:
    _, definitions = models_json_schema(
        [(event, "validation") for event in EVENTS], ref_template="#/components/schemas/{model}"
    )
    schemas: JsonObject = definitions["$defs"]
    return schemas


def _readings() -> list[tuple[Topic, str]]:
    """Each topic with each consumer group that reads it."""
    return [(topic, group) for topic in topics.TOPICS for group in topic.groups]


def _event_of(topic: Topic) -> type[Event]:
    return next(event for event in EVENTS if event.topic is topic)


if __name__ == "__main__":
    main()
