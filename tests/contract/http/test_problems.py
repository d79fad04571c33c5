"""Problem documents (RFC 9457): stable types, one status each, and nothing of what was sent."""

import json
from collections.abc import Mapping

import pytest

from lorebus_contracts import problems, wire
from lorebus_contracts.http import SaveBody
from lorebus_contracts.problems import Problem
from lorebus_contracts.wire import Fault, WireError
from lorebus_gateway.answers import Answer
from lorebus_gateway.errors import (
    BodyTooLargeError,
    BodyTooSlowError,
    ConflictError,
    FileTooLargeError,
    ForbiddenError,
    KeyReusedError,
    NotAuthenticatedError,
    NotFoundError,
    RequestInHandError,
    TooManyRequestsError,
    UnsupportedFileTypeError,
    UnsupportedMediaTypeError,
)
from lorebus_gateway.problems import method_not_allowed, problem_answer
from lorebus_store.errors import PermanentError, TransientError

PUBLISHED: Mapping[str, int] = {
    "urn:lorebus:problem:invalid-request": 422,
    "urn:lorebus:problem:not-authenticated": 401,
    "urn:lorebus:problem:forbidden": 403,
    "urn:lorebus:problem:not-found": 404,
    "urn:lorebus:problem:method-not-allowed": 405,
    "urn:lorebus:problem:body-too-slow": 408,
    "urn:lorebus:problem:conflict": 409,
    "urn:lorebus:problem:idempotency-key-reused": 409,
    "urn:lorebus:problem:request-in-hand": 409,
    "urn:lorebus:problem:body-too-large": 413,
    "urn:lorebus:problem:file-too-large": 413,
    "urn:lorebus:problem:unsupported-media-type": 415,
    "urn:lorebus:problem:unsupported-file-type": 415,
    "urn:lorebus:problem:too-many-requests": 429,
    "urn:lorebus:problem:internal": 500,
    "urn:lorebus:problem:unavailable": 503,
}
"""Published types are never renamed and never change their status; new ones are added."""


def document(answer: Answer) -> Problem:
    assert answer.media_type == "application/problem+json"
    told = wire.parse(Problem, answer.body)
    assert told.status == answer.status
    return told


def test_the_published_types_have_their_published_statuses() -> None:
    assert {kind.type: kind.status for kind in problems.KINDS} == PUBLISHED


@pytest.mark.parametrize(
    ("error", "kind", "headers"),
    [
        (WireError(Fault("a", "b")), "invalid-request", ()),
        (NotAuthenticatedError("why"), "not-authenticated", (("www-authenticate", "Agent, Bearer"),)),
        (ForbiddenError("why"), "forbidden", ()),
        (NotFoundError("why"), "not-found", ()),
        (ConflictError("why"), "conflict", ()),
        (KeyReusedError("why"), "idempotency-key-reused", ()),
        (RequestInHandError("why"), "request-in-hand", (("retry-after", "1"),)),
        (TooManyRequestsError(17), "too-many-requests", (("retry-after", "17"),)),
        (BodyTooSlowError("why"), "body-too-slow", (("connection", "close"),)),
        (BodyTooLargeError("why"), "body-too-large", ()),
        (FileTooLargeError("why"), "file-too-large", ()),
        (UnsupportedFileTypeError("why"), "unsupported-file-type", ()),
        (UnsupportedMediaTypeError("why"), "unsupported-media-type", ()),
        (TransientError("why"), "unavailable", (("retry-after", "2"),)),
        (PermanentError("why"), "internal", ()),
        (ValueError("why"), "internal", ()),
        (KeyError("why"), "internal", ()),
    ],
)
def test_an_error_becomes_the_document_of_its_kind_and_its_text_stays_here(
    error: Exception, kind: str, headers: tuple[tuple[str, str], ...]
) -> None:
    answer = problem_answer(error)

    assert document(answer).type == f"urn:lorebus:problem:{kind}"
    assert answer.headers == headers
    assert b"why" not in answer.body


def test_an_unknown_method_is_told_the_known_ones() -> None:
    answer = method_not_allowed("GET, PUT")

    assert (document(answer).status, answer.headers) == (405, (("allow", "GET, PUT"),))


def test_each_fault_has_its_path_and_what_is_wrong_there() -> None:
    answer = problem_answer(WireError(Fault("entries.0.text", "is required"), Fault("", "is empty")))

    assert json.loads(answer.body)["faults"] == [
        {"path": "entries.0.text", "problem": "is required"},
        {"path": "", "problem": "is empty"},
    ]


@pytest.mark.parametrize(
    "raw",
    [
        b'{"content": "s3cret", "entries": [{"text": "s3cret"}]}',
        b'{"content": {"s3cret": 1}}',
        b'{"s3cret in a key": 1}',
        b'{"entries": [{"text": "s3cret", "importance": "s3cret"}]}',
        b"s3cret",
        b'{"content": "s3cret',
        b'{"content": "s3cret" "s3cret"}',
        b'{"content": "s3cret", "content": "s3cret"}',
    ],
)
def test_what_was_sent_is_never_in_the_document(raw: bytes) -> None:
    with pytest.raises(WireError) as refused:
        wire.parse(SaveBody, raw)

    assert b"s3cret" not in problem_answer(refused.value).body


def test_a_body_of_a_thousand_faults_gets_an_answer_of_readable_length() -> None:
    raw = json.dumps({"entries": [{"importance": 2}] * 100}).encode()
    with pytest.raises(WireError) as refused:
        wire.parse(SaveBody, raw)

    assert len(document(problem_answer(refused.value)).faults) == 20
