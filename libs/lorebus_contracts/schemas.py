"""JSON Schemas of the events and of the workflow types, made from the models that validate.

The rule that must not break: no schema is written by hand. `python -m lorebus_contracts.schemas FOLDER` writes
each to a file of its own; the files under `tests/contract/golden/schemas` show a change of the wire in review.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from lorebus_contracts.events import EVENTS
from lorebus_contracts.workflows import WORKFLOWS, describe

JsonObject: TypeAlias = dict[str, object]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
EVENT_VERSION: Final = 1
"""The `schema_version` that every event has today."""


def event_schemas() -> dict[str, JsonObject]:
    """The schema of each event, by its topic's name."""
    return {
        event.topic.name: {
            "$schema": DIALECT,
            "$id": f"urn:lorebus:event:{event.topic.name}:v{EVENT_VERSION}",
            **event.model_json_schema(),
        }
        for event in EVENTS
    }


def workflow_schemas() -> dict[str, JsonObject]:
    """The descriptor of each workflow type with the schemas of its input and output, by the type's name."""
    return {descriptor.workflow_type.value: describe(descriptor) for descriptor in WORKFLOWS.values()}


def schema_files() -> Mapping[str, str]:
    """What every schema file holds, by the file's name."""
    events = {f"{topic}.v{EVENT_VERSION}.json": as_text(schema) for topic, schema in event_schemas().items()}
    workflows = {f"{name}.json": as_text(descriptor) for name, descriptor in workflow_schemas().items()}
    return {**events, **workflows}


def as_text(document: JsonObject) -> str:
    """A generated document as it is kept in a file."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write every schema to the folder that the command line names."""
    if len(sys.argv) != 2:  # noqa: PLR2004 -- the program's name and one folder
        raise SystemExit("usage: python -m lorebus_contracts.schemas FOLDER")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in schema_files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
