"""The OpenAPI 3.1 document, made from the route table and from the models that validate.

The rule that must not break: nothing is described by hand here that the table or a model says already.
`python -m lorebus_gateway.openapi` prints it; `docs/openapi.json` is that output.
"""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from pydantic.json_schema import JsonSchemaMode, models_json_schema

from lorebus_contracts import problems
from lorebus_contracts.http import NoInput
from lorebus_contracts.problems import Problem, ProblemKind
from lorebus_contracts.schemas import as_text
from lorebus_contracts.wire import WireModel
from lorebus_gateway.authentication import Authenticator
from lorebus_gateway.endpoints import AnyRoute
from lorebus_gateway.routes import ROUTES

JsonObject: TypeAlias = dict[str, Any]
_ModelUse: TypeAlias = tuple[type[WireModel], JsonSchemaMode]

VERSION: Final = "1.0"
"""The version of the API, which is not that of the package."""

_REF: Final = "#/components/schemas/{model}"
_PATH_PART: Final = re.compile(r"\{(\w+)\}")
_SECURITY_OF: Final[Mapping[object, list[JsonObject]]] = {
    Authenticator.anyone: [],
    Authenticator.session: [{"sessionToken": []}],
    Authenticator.organization: [{"apiKey": []}],
    Authenticator.session_or_organization: [{"sessionToken": []}, {"apiKey": []}],
}
_SECURITY_SCHEMES: Final[JsonObject] = {
    "sessionToken": {"type": "http", "scheme": "Agent", "description": "A session's token."},
    "apiKey": {"type": "http", "scheme": "Bearer", "description": "An organization's API key."},
}
_BODY_PROBLEMS: Final = (problems.BODY_TOO_LARGE, problems.UNSUPPORTED_MEDIA_TYPE)


def openapi_document(routes: Sequence[AnyRoute] = ROUTES) -> JsonObject:
    """The document, for every route."""
    references, schema = models_json_schema(_models(routes), ref_template=_REF)
    writer = _Writer(references)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Lorebus", "version": VERSION, "summary": "The memory of a fleet of AI agents."},
        "paths": writer.paths(routes),
        "components": {
            "schemas": dict(sorted(schema["$defs"].items())),
            "securitySchemes": _SECURITY_SCHEMES,
        },
    }


def main() -> None:
    """Print the document as `docs/openapi.json` holds it."""
    sys.stdout.write(as_text(openapi_document()))


class _Writer:
    """Writes operations; `references` point at each model's schema, which differs for input and output."""

    def __init__(self, references: Mapping[Any, JsonObject]) -> None:
        self._references = references

    def paths(self, routes: Sequence[AnyRoute]) -> JsonObject:
        paths: dict[str, JsonObject] = {}
        for route in routes:
            paths.setdefault(route.path, {})[route.method.lower()] = self._operation(route)
        return paths

    def _operation(self, route: AnyRoute) -> JsonObject:
        operation: JsonObject = {
            "operationId": route.handler.__name__,
            "summary": route.summary,
            "security": _SECURITY_OF[route.access],
            "parameters": [*_path_parameters(route), *_query_parameters(route)],
            "responses": self._responses(route),
        }
        if route.has_body:
            operation["requestBody"] = {"required": True, "content": self._content(route.input, "validation")}
        return operation

    def _responses(self, route: AnyRoute) -> JsonObject:
        answers = {str(status): self._answer(status, model) for status, model in route.answers.items()}
        return answers | {str(kind.status): self._problem(kind) for kind in _problems(route)}

    def _answer(self, status: int, model: type[WireModel] | None) -> JsonObject:
        answer: JsonObject = {"description": HTTPStatus(status).phrase}
        if model is not None:
            answer["content"] = self._content(model, "serialization")
        return answer

    def _problem(self, kind: ProblemKind) -> JsonObject:
        content = self._content(Problem, "serialization", media_type=problems.MEDIA_TYPE)
        return {"description": f"{kind.title} (`{kind.type}`)", "content": content}

    def _content(
        self, model: type[WireModel], mode: JsonSchemaMode, media_type: str = "application/json"
    ) -> JsonObject:
        return {media_type: {"schema": self._references[model, mode]}}


def _models(routes: Sequence[AnyRoute]) -> list[_ModelUse]:
    bodies: set[type[WireModel]] = {route.input for route in routes if route.has_body}
    answers: set[type[WireModel]] = {
        model for route in routes for model in route.answers.values() if model is not None
    }
    uses: list[_ModelUse] = [(model, "validation") for model in bodies]
    uses += [(model, "serialization") for model in answers | {Problem}]
    return sorted(uses, key=lambda use: use[0].__name__)


def _path_parameters(route: AnyRoute) -> list[JsonObject]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PATH_PART.findall(route.path)
    ]


def _query_parameters(route: AnyRoute) -> list[JsonObject]:
    if route.has_body:
        return []
    schema = route.input.model_json_schema()
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": field}
        for name, field in schema.get("properties", {}).items()
    ]


def _problems(route: AnyRoute) -> Iterable[ProblemKind]:
    if _SECURITY_OF[route.access]:
        yield problems.NOT_AUTHENTICATED
    if _PATH_PART.search(route.path):
        yield problems.NOT_FOUND
    yield from route.problems
    if route.has_body:
        yield from _BODY_PROBLEMS
    if route.has_body or route.input is not NoInput:
        yield problems.INVALID
    yield problems.INTERNAL
    yield problems.UNAVAILABLE


if __name__ == "__main__":
    main()
