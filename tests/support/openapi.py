"""Holding every answer of a test to what the OpenAPI document says of its route and status."""

import json
import re
from functools import cache
from typing import Any, Final

import httpx
from jsonschema import Draft202012Validator

from lorebus_gateway.openapi import openapi_document
from tests.support.outputs import OUTPUTS

_SCHEMAS: Final = "#/components/schemas/"


def check_answer(answer: httpx.Response) -> None:
    """Do nothing if the answer has a status, a media type and a body that its route may answer with.

    Raises:
        AssertionError: it has not.
    """
    request = answer.request
    if answer.is_error:
        OUTPUTS.search(f"a refusal with {answer.status_code}", answer.text)
    operation = _operation(request.method, request.url.raw_path.decode().partition("?")[0])
    if operation is None:
        return
    told = operation["responses"].get(str(answer.status_code))
    assert told is not None, f"{request.method} {request.url.path} may not answer {answer.status_code}"
    content = told.get("content", {})
    media_type = answer.headers.get("content-type")
    assert media_type in (content or {None}), media_type
    if content:
        _validator(json.dumps(content[media_type]["schema"])).validate(answer.json())


@cache
def _document() -> dict[str, Any]:
    return openapi_document()


def _operation(method: str, path: str) -> dict[str, Any] | None:
    for template, methods in _document()["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            found: dict[str, Any] | None = methods.get(method.lower())
            return found
    return None


@cache
def _validator(schema: str) -> Draft202012Validator:
    components = _document()["components"]["schemas"]
    return Draft202012Validator({**json.loads(schema), "components": {"schemas": components}})
