"""The OpenAPI 3.1 document, made from the route table and from the models that validate.

The rule that must not break: nothing is described by hand here that the table or a model says already.
`python -m lorebus_gateway.openapi` prints it; `docs/openapi.json` is that output.
"""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from lorebus_contracts import memory_file, problems
from lorebus_contracts.http import NoInput
from lorebus_contracts.http_answers import RunSnapshot
from lorebus_contracts.http_memory import ErasureReceipt
from lorebus_contracts.problems import Problem, ProblemKind
from lorebus_contracts.schemas import as_text
from lorebus_contracts.wire import WireModel
from lorebus_contracts.workflows import WorkflowType
from lorebus_gateway.answers import JSON
from lorebus_gateway.api_examples import EXAMPLES
from lorebus_gateway.api_tags import TAGS, tag_of
from lorebus_gateway.authentication import Authenticator
from lorebus_gateway.endpoints import AnyRoute
from lorebus_gateway.routes import ROUTES
from lorebus_gateway.server_sent_events import EVENT_STREAM

JsonObject: TypeAlias = dict[str, Any]
_ModelUse: TypeAlias = tuple[type[BaseModel], JsonSchemaMode]

VERSION: Final = "1.0"
"""The version of the API, which is not that of the package."""

_REF: Final = "#/components/schemas/{model}"
_NOT_IN_NAMES: Final = re.compile("[^a-z]+")
_PATH_PART: Final = re.compile(r"\{(\w+)\}")
_WAYS_OF: Final[Mapping[object, tuple[str, ...]]] = {
    Authenticator.anyone: (),
    Authenticator.session: ("sessionToken",),
    Authenticator.organization: ("apiKey",),
    Authenticator.session_or_organization: ("sessionToken", "apiKey"),
}
_SECURITY_SCHEMES: Final[JsonObject] = {
    "sessionToken": {"type": "http", "scheme": "Agent", "description": "A session's token."},
    "apiKey": {
        "type": "http",
        "scheme": "Bearer",
        "description": "An organization's API key; it must be for all of the scopes named.",
    },
}
_IDEMPOTENCY_KEY: Final[JsonObject] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Chosen by the client; the same key with the same body gives the first answer again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"},
}
_LAST_EVENT_ID: Final[JsonObject] = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "The id of the last event that the client has seen, of any gateway: it is told what came after it.",
    "schema": {"type": "string", "examples": ["p0:17,p1:3"]},
}
_PREFER: Final[JsonObject] = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": "`wait=N`, at most 30 seconds: answer 200 with the run's snapshot if it ends within that time.",
    "schema": {"type": "string", "examples": ["wait=10"]},
}
_CHANGES: Final = "memory.changed"
"""The event of a stream that can be taken up again."""


def _header(description: str, *, required: bool = False, **schema: object) -> JsonObject:
    return {"description": description, "required": required, "schema": {"type": "string", **schema}}


_SECONDS: Final[JsonObject] = {"type": "integer", "minimum": 1}
_HEADERS_OF_PROBLEMS: Final[Mapping[int, JsonObject]] = {
    401: {"WWW-Authenticate": _header("The schemes that there are.", required=True)},
    409: {
        "Retry-After": _header("With `request-in-hand`: seconds until it is worth asking again.", **_SECONDS)
    },
    429: {"Retry-After": _header("Seconds until the minute is over.", required=True, **_SECONDS)},
    503: {"Retry-After": _header("Seconds until it is worth asking again.", required=True, **_SECONDS)},
}
_REPLAYED: Final[JsonObject] = {
    "Idempotency-Replayed": _header(
        "`true`: the first answer to this `Idempotency-Key`, again.", const="true"
    )
}
_APPLIED: Final[JsonObject] = {
    "Preference-Applied": _header("The seconds that were waited for at most.", pattern="^wait=[0-9]+$")
}
_LOCATION: Final[JsonObject] = {
    "Location": _header("Where the run, or the receipt, is to be had.", pattern="^/api/")
}


def _uuid_in_path(description: str) -> JsonObject:
    return {"description": description, "schema": {"type": "string", "format": "uuid"}}


_IN_PATHS: Final[Mapping[str, JsonObject]] = {
    "session_ref": _uuid_in_path("The token's own session."),
    "session_uuid": _uuid_in_path("The session."),
    "agent_config_uuid": _uuid_in_path("The agent config."),
    "entry_id": _uuid_in_path("The memory entry."),
    "erasure_id": _uuid_in_path("The erasure."),
    "key_id": _uuid_in_path("The API key."),
    "recall_id": _uuid_in_path("The recall, or the pack that it handed out."),
    "workflow_id": _uuid_in_path("The run."),
    "workflow_type": {
        "description": "The workflow type's name.",
        "schema": {"type": "string", "enum": [name.value for name in WorkflowType]},
    },
}
_BODY_PROBLEMS: Final = (problems.BODY_TOO_SLOW, problems.BODY_TOO_LARGE, problems.UNSUPPORTED_MEDIA_TYPE)
_FILE_PROBLEMS: Final = (problems.BODY_TOO_SLOW, problems.FILE_TOO_LARGE, problems.UNSUPPORTED_FILE_TYPE)


def openapi_document(routes: Sequence[AnyRoute] = ROUTES) -> JsonObject:
    """The document, for every route."""
    references, schema = models_json_schema(_models(routes), ref_template=_REF)
    writer = _Writer(references)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Lorebus", "version": VERSION, "summary": "The memory of a fleet of AI agents."},
        "tags": [{"name": tag.name, "description": tag.description} for tag in TAGS],
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
            "tags": [tag_of(route.path)],
            "summary": route.summary,
            "security": _security(route),
            "parameters": [
                *_path_parameters(route),
                *_query_parameters(route),
                *_header_parameters(route),
            ],
            "responses": self._responses(route),
        }
        if route.has_body:
            needed = route.input is not NoInput
            operation["requestBody"] = {
                "required": needed,
                "content": self._body(route.input),
            }
        if route.reads is not None:
            content = self._body(route.reads, memory_file.MEDIA_TYPE)
            operation["requestBody"] = {"required": True, "content": content}
        return operation

    def _responses(self, route: AnyRoute) -> JsonObject:
        answers = {str(status): self._answer(status, models) for status, models in _answers(route).items()}
        if route.streams is not None:
            answers["200"] = self._stream(route.streams)
        if route.writes is not None:
            answers["200"] = self._file(route.writes)
        for status, answer in answers.items():
            if headers := _answer_headers(route, int(status)):
                answer["headers"] = headers
        kinds: dict[int, list[ProblemKind]] = {}
        for kind in dict.fromkeys(_problems(route)):
            kinds.setdefault(kind.status, []).append(kind)
        return answers | {str(status): self._problems(of_status) for status, of_status in kinds.items()}

    def _answer(self, status: int, models: Sequence[type[WireModel]]) -> JsonObject:
        answer: JsonObject = {"description": HTTPStatus(status).phrase}
        if len(models) == 1:
            answer["content"] = self._content(models[0], "serialization")
        elif models:
            either = [self._references[model, "serialization"] for model in models]
            answer["content"] = {JSON: {"schema": {"anyOf": either}}}
        return answer

    def _stream(self, events: Mapping[str, type[WireModel]]) -> JsonObject:
        told = {"anyOf": [self._event(name, data) for name, data in events.items()]}
        return {
            "description": "Server-sent events until one side ends them; the schema is that of one event's fields",
            "content": {EVENT_STREAM: {"schema": told}},
        }

    def _event(self, name: str, data: type[WireModel]) -> JsonObject:
        """The fields of an event; its data is JSON on one line."""
        content = {"contentMediaType": JSON, "contentSchema": self._references[data, "serialization"]}
        return {
            "type": "object",
            "properties": {
                "event": {"const": name},
                "data": {"type": "string", **content},
                "id": {"type": "string"},
            },
            "required": ["event", "data"],
        }

    def _file(self, line: type[BaseModel]) -> JsonObject:
        content = self._content(line, "serialization", memory_file.MEDIA_TYPE)
        return {"description": "JSON Lines; the schema is that of one line", "content": content}

    def _problems(self, kinds: Sequence[ProblemKind]) -> JsonObject:
        content = self._content(Problem, "serialization", media_type=problems.MEDIA_TYPE)
        told = [f"{kind.title} (`{kind.type}`)" for kind in kinds]
        answer: JsonObject = {"description": "; ".join(told), "content": content}
        if headers := _HEADERS_OF_PROBLEMS.get(kinds[0].status):
            answer["headers"] = headers
        return answer

    def _body(self, model: type[BaseModel], media_type: str = JSON) -> JsonObject:
        content = self._content(model, "validation", media_type)
        content[media_type]["examples"] = {
            _NOT_IN_NAMES.sub("-", summary.lower()): {"summary": summary, "value": value}
            for summary, value in EXAMPLES[model]
        }
        return content

    def _content(self, model: type[BaseModel], mode: JsonSchemaMode, media_type: str = JSON) -> JsonObject:
        return {media_type: {"schema": self._references[model, mode]}}


def _security(route: AnyRoute) -> list[JsonObject]:
    """The ways to be let in, each by itself enough; a key's scopes are told as OpenAPI tells roles."""
    scopes = [scope.value for scope in route.scopes]
    return [{way: scopes if way == "apiKey" else []} for way in _WAYS_OF[route.access]]


def _models(routes: Sequence[AnyRoute]) -> list[_ModelUse]:
    bodies: set[type[BaseModel]] = {route.input for route in routes if route.has_body}
    bodies |= {route.reads for route in routes if route.reads is not None}
    answers: set[type[BaseModel]] = {
        model for route in routes for models in _answers(route).values() for model in models
    }
    answers |= {model for route in routes for model in (route.streams or {}).values()}
    answers |= {route.writes for route in routes if route.writes is not None}
    uses: list[_ModelUse] = [(model, "validation") for model in bodies]
    uses += [(model, "serialization") for model in answers | {Problem}]
    return sorted(uses, key=lambda use: use[0].__name__)


def _path_parameters(route: AnyRoute) -> list[JsonObject]:
    return [
        {"name": name, "in": "path", "required": True, **_IN_PATHS[name]}
        for name in _PATH_PART.findall(route.path)
    ]


def _query_parameters(route: AnyRoute) -> list[JsonObject]:
    if route.has_body:
        return []
    schema = route.input.model_json_schema()
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _inlined(field, schema)}
        for name, field in schema.get("properties", {}).items()
    ]


def _inlined(value: Any, schema: JsonObject) -> Any:  # noqa: ANN401 - Any JSON value.
    """The value with what it refers to in its place; a query's own definitions are no components of the document."""
    if isinstance(value, list):
        return [_inlined(item, schema) for item in value]
    if not isinstance(value, dict):
        return value
    own = {name: _inlined(item, schema) for name, item in value.items() if name != "$ref"}
    if "$ref" not in value:
        return own
    return _inlined(schema["$defs"][value["$ref"].rpartition("/")[2]], schema) | own


def _header_parameters(route: AnyRoute) -> list[JsonObject]:
    found = []
    if route.method == "POST":
        found.append(_IDEMPOTENCY_KEY)
    if HTTPStatus.ACCEPTED in route.answers:
        found.append(_PREFER)
    if _CHANGES in (route.streams or ()):
        found.append(_LAST_EVENT_ID)
    return found


def _answer_headers(route: AnyRoute, status: int) -> JsonObject:
    """What a success may bring besides its body."""
    found: JsonObject = {}
    if route.method == "POST":
        found |= _REPLAYED
    if HTTPStatus.ACCEPTED in route.answers:
        found |= _APPLIED
    if status == HTTPStatus.ACCEPTED or {RunSnapshot, ErasureReceipt} & set(route.answers.values()):
        found |= _LOCATION if route.method == "POST" else {}
    return found


def _answers(route: AnyRoute) -> Mapping[int, Sequence[type[WireModel]]]:
    """The successes; a run that is waited for and has ended is answered by its snapshot."""
    found = {status: [] if model is None else [model] for status, model in route.answers.items()}
    if HTTPStatus.ACCEPTED in found and RunSnapshot not in found.setdefault(200, []):
        found[200].append(RunSnapshot)
    return dict(sorted(found.items()))


def _problems(route: AnyRoute) -> Iterable[ProblemKind]:
    if _WAYS_OF[route.access]:
        yield problems.NOT_AUTHENTICATED
        yield problems.TOO_MANY_REQUESTS
    if "apiKey" in _WAYS_OF[route.access]:
        yield problems.FORBIDDEN
    if route.method == "POST":
        yield from (problems.KEY_REUSED, problems.IN_HAND)
    if _PATH_PART.search(route.path):
        yield problems.NOT_FOUND
    yield from route.problems
    if route.has_body:
        yield from _BODY_PROBLEMS
    if route.reads is not None:
        yield from _FILE_PROBLEMS
    if route.has_body or route.input is not NoInput:
        yield problems.INVALID
    yield problems.INTERNAL
    yield problems.UNAVAILABLE


if __name__ == "__main__":
    main()
