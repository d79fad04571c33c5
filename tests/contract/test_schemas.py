"""Generated documents: the committed files are what the models say today."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from lorebus_contracts.events import EVENTS
from lorebus_contracts.schemas import event_schemas, main, schema_files, workflow_schemas
from lorebus_contracts.workflows import WORKFLOWS, WorkflowDescriptor
from tests.contract.golden_files import PAYLOADS, SCHEMAS, event_of, name_of

HOW = (
    "the wire has changed: see whether readers and writers of today can live with it, then run"
    " `.venv/bin/python -m lorebus_contracts.schemas tests/contract/golden/schemas`"
)


@pytest.mark.parametrize("name", schema_files())
def test_a_schema_file_is_what_the_models_say(name: str) -> None:
    path = SCHEMAS / name

    assert path.exists(), HOW
    assert path.read_text(encoding="utf-8") == schema_files()[name], HOW


def test_there_is_no_schema_file_of_anything_else() -> None:
    assert sorted(path.name for path in SCHEMAS.iterdir()) == sorted(schema_files())


def test_there_is_a_schema_of_every_event_and_workflow_type() -> None:
    assert list(event_schemas()) == [
        "session.ended",
        "session.rated",
        "memory.save-requested",
        "memory.prune-requested",
        "recall.recorded",
        "memory.changed",
    ]
    assert list(workflow_schemas()) == [
        "agents.memory-load",
        "agents.memory-distill",
        "agents.memory-save",
        "agents.memory-prune",
    ]


def test_the_command_writes_every_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["lorebus_contracts.schemas", str(tmp_path / "new")])

    main()

    written = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "new").iterdir()}
    assert written == schema_files()


def test_the_command_without_a_folder_says_how_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["lorebus_contracts.schemas"])

    with pytest.raises(SystemExit, match="usage"):
        main()


@pytest.mark.parametrize("payload", PAYLOADS, ids=name_of)
def test_a_golden_payload_is_valid_by_its_schema(payload: Path) -> None:
    schema = event_schemas()[event_of(payload).topic.name]
    Draft202012Validator.check_schema(schema)

    assert list(Draft202012Validator(schema).iter_errors(json.loads(payload.read_bytes()))) == []


@pytest.mark.parametrize("descriptor", WORKFLOWS.values(), ids=lambda descriptor: descriptor.workflow_type)
def test_every_field_of_a_workflow_type_is_described(descriptor: WorkflowDescriptor) -> None:
    assert undescribed(descriptor.input) == []
    assert undescribed(descriptor.output) == []


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.topic.name)
def test_every_field_of_an_event_is_described(event: type[BaseModel]) -> None:
    assert undescribed(event) == []


def undescribed(model: type[BaseModel]) -> list[str]:
    """The fields of a model, and of the models in it, without a description."""
    schema = model.model_json_schema()
    objects = [schema, *schema.get("$defs", {}).values()]
    return [
        name
        for described in objects
        for name, field in described.get("properties", {}).items()
        if not field.get("description")
    ]
