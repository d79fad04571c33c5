"""The OpenAPI document: generated, kept as a golden file, and true to SPEC.md section 8."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from lorebus_contracts import problems
from lorebus_contracts.http import StartBody
from lorebus_contracts.schemas import as_text
from lorebus_contracts.workflows import WORKFLOWS
from lorebus_gateway.api_examples import EXAMPLES
from lorebus_gateway.openapi import openapi_document
from lorebus_gateway.routes import ROUTES
from tests.contract.golden_files import ROOT

GOLDEN: Final = ROOT / "docs" / "openapi.json"
DOCUMENT: Final = openapi_document()

IN_THE_SPEC: Final = {
    ("POST", "/api/agents/sessions/{session_ref}/memory-save"): ("Agent", {"200", "202"}),
    ("POST", "/api/agents/sessions/{session_ref}/memory-load"): ("Agent", {"200"}),
    ("GET", "/api/app/agents/memory"): ("Bearer", {"200"}),
    ("DELETE", "/api/app/agents/memory/{entry_id}"): ("Bearer", {"204"}),
    ("GET", "/api/app/agents/memory/feed"): ("Bearer", {"200"}),
    ("POST", "/api/app/agents/memory/erase"): ("Bearer", {"200"}),
    ("GET", "/api/app/agents/memory/erasures/{erasure_id}"): ("Bearer", {"200"}),
    ("GET", "/api/app/agents/memory/export"): ("Bearer", {"200"}),
    ("POST", "/api/app/agents/memory/import"): ("Bearer", {"200"}),
    ("GET", "/api/app/agents/memory/{entry_id}/evidence"): ("Bearer", {"200"}),
    ("POST", "/api/app/agents/memory/{entry_id}/release"): ("Bearer", {"200"}),
    ("POST", "/api/app/agents/memory/distill/preview"): ("Bearer", {"200"}),
    ("POST", "/api/app/agents/memory/prune"): ("Bearer", {"200", "202"}),
    ("POST", "/api/workflows/start"): ("Bearer", {"200", "202"}),
    ("GET", "/api/workflows"): ("Bearer", {"200"}),
    ("GET", "/api/workflows/{workflow_id}"): ("Agent Bearer", {"200"}),
    ("GET", "/api/workflows/{workflow_id}/watch"): ("Agent Bearer", {"200"}),
    ("GET", "/api/workflows/{workflow_id}/history"): ("Agent Bearer", {"200"}),
    ("GET", "/api/workflows/types"): ("", {"200"}),
    ("GET", "/api/workflows/types/{workflow_type}/schema"): ("", {"200"}),
    ("PUT", "/api/app/agents/configs/{agent_config_uuid}"): ("Bearer", {"200"}),
    ("GET", "/api/app/agents/configs/{agent_config_uuid}"): ("Bearer", {"200"}),
    ("PUT", "/api/app/organization"): ("Bearer", {"200"}),
    ("GET", "/api/app/organization"): ("Bearer", {"200"}),
    ("POST", "/api/app/organization/keys"): ("Bearer", {"201"}),
    ("GET", "/api/app/organization/keys"): ("Bearer", {"200"}),
    ("DELETE", "/api/app/organization/keys/{key_id}"): ("Bearer", {"204"}),
    ("POST", "/api/app/agents/sessions"): ("Bearer", {"201"}),
    ("POST", "/api/app/agents/sessions/{session_uuid}/end"): ("Bearer", {"200", "202"}),
    ("POST", "/api/app/agents/sessions/{session_uuid}/rating"): ("Bearer", {"200", "202"}),
    ("GET", "/api/app/agents/recalls/{recall_id}"): ("Bearer", {"200"}),
}


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from references(item)


def test_the_document_is_what_the_golden_file_says() -> None:
    assert as_text(DOCUMENT) == GOLDEN.read_text(encoding="utf-8"), (
        "python -m lorebus_gateway.openapi > docs/openapi.json"
    )


def test_every_route_of_the_specification_is_there_with_its_credentials_and_answers() -> None:
    schemes = DOCUMENT["components"]["securitySchemes"]
    told = {
        (method, path): (
            " ".join(schemes[name]["scheme"] for way in operation["security"] for name in way),
            {status for status in operation["responses"] if status < "300"},
        )
        for method, path, operation in operations()
    }

    assert told == IN_THE_SPEC


def test_every_reference_leads_somewhere() -> None:
    known = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}

    assert set(references(DOCUMENT)) <= known


@pytest.mark.parametrize("name", list(DOCUMENT["components"]["schemas"]))
def test_every_schema_is_a_json_schema_of_the_dialect_of_openapi_3_1(name: str) -> None:
    Draft202012Validator.check_schema(DOCUMENT["components"]["schemas"][name])


@pytest.mark.parametrize("name", list(DOCUMENT["components"]["schemas"]))
def test_every_field_of_a_model_is_described(name: str) -> None:
    properties = DOCUMENT["components"]["schemas"][name].get("properties", {})
    plain = {"StateDescriptor", "Transition"}

    assert name in plain or all("description" in field for field in properties.values()), properties


def test_every_operation_has_a_name_of_its_own_and_a_summary() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]

    assert len(set(names)) == len(names)
    assert all(operation["summary"].endswith(".") for _, _, operation in operations())


def test_every_parameter_of_a_path_is_told() -> None:
    for _, path, operation in operations():
        told = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
        assert told == set(re.findall(r"\{(\w+)\}", path))


def test_every_problem_but_an_unknown_method_is_told_by_some_route() -> None:
    told = {
        status for _, _, operation in operations() for status in operation["responses"] if status >= "400"
    }

    assert told == {str(kind.status) for kind in problems.KINDS} - {"405"}


def test_a_path_that_another_ones_parameter_would_match_stands_before_it() -> None:
    paths = list(dict.fromkeys(route.path for route in ROUTES))
    for index, path in enumerate(paths):
        pattern = re.compile(re.sub(r"\{\w+\}", "[^/]+", path))
        assert not [later for later in paths[index + 1 :] if pattern.fullmatch(later)], path


def test_every_operation_stands_below_one_heading_that_is_described() -> None:
    described = {tag["name"]: tag["description"] for tag in DOCUMENT["tags"]}
    used = [operation["tags"] for _, _, operation in operations()]

    assert all(len(tags) == 1 for tags in used)
    assert {name for tags in used for name in tags} == set(described)
    assert all(text.endswith(".") for text in described.values())


BODIES: Final = {
    operation["operationId"]: content
    for _, _, operation in operations()
    for content in operation.get("requestBody", {}).get("content", {}).values()
}


@pytest.mark.parametrize("name", list(BODIES))
def test_every_body_has_examples_that_its_schema_allows(name: str) -> None:
    schema = BODIES[name]["schema"] | {"components": DOCUMENT["components"]}
    examples = BODIES[name]["examples"]

    assert examples
    for example in examples.values():
        Draft202012Validator(schema).validate(example["value"])


@pytest.mark.parametrize(
    ("model", "body"), [(model, body) for model, examples in EXAMPLES.items() for _, body in examples]
)
def test_every_example_is_what_its_model_takes(model: type[BaseModel], body: object) -> None:
    model.model_validate_json(json.dumps(body))


def test_an_example_of_a_run_to_start_has_the_inputs_of_its_type() -> None:
    for _, body in EXAMPLES[StartBody]:
        asked = StartBody.model_validate(body)
        WORKFLOWS[asked.workflow_type].input.model_validate(asked.initial_data)


def test_the_document_is_plain_json() -> None:
    assert json.loads(as_text(DOCUMENT)) == DOCUMENT
