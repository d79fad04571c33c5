"""From an exception to a problem document: the one table, and the only place that makes one.

The rule that must not break: the document depends on the kind of error alone; for a request that is not valid it
lists the faults, in which the parser repeats nothing of the input.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lorebus_contracts import problems
from lorebus_contracts.problems import FaultBody, Problem, ProblemKind
from lorebus_contracts.wire import WireError
from lorebus_gateway.answers import Answer, Headers
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
from lorebus_store.errors import TransientError

RETRY_AFTER_SECONDS: Final = 2
"""When what was away is worth asking for again."""
IN_HAND_SECONDS: Final = 1
"""When a request that is in hand is worth asking for again."""

KIND_OF: Final[Mapping[type[Exception], ProblemKind]] = MappingProxyType(
    {
        WireError: problems.INVALID,
        NotAuthenticatedError: problems.NOT_AUTHENTICATED,
        ForbiddenError: problems.FORBIDDEN,
        NotFoundError: problems.NOT_FOUND,
        ConflictError: problems.CONFLICT,
        KeyReusedError: problems.KEY_REUSED,
        RequestInHandError: problems.IN_HAND,
        BodyTooSlowError: problems.BODY_TOO_SLOW,
        BodyTooLargeError: problems.BODY_TOO_LARGE,
        UnsupportedMediaTypeError: problems.UNSUPPORTED_MEDIA_TYPE,
        FileTooLargeError: problems.FILE_TOO_LARGE,
        UnsupportedFileTypeError: problems.UNSUPPORTED_FILE_TYPE,
        TooManyRequestsError: problems.TOO_MANY_REQUESTS,
        TransientError: problems.UNAVAILABLE,
    }
)
KNOWN_ERRORS: Final = tuple(KIND_OF)

_HEADERS_OF: Final[Mapping[ProblemKind, Headers]] = MappingProxyType(
    {
        problems.NOT_AUTHENTICATED: (("www-authenticate", "Agent, Bearer"),),
        problems.UNAVAILABLE: (("retry-after", str(RETRY_AFTER_SECONDS)),),
        # What else comes of the body is not waited for.
        problems.BODY_TOO_SLOW: (("connection", "close"),),
        problems.IN_HAND: (("retry-after", str(IN_HAND_SECONDS)),),
    }
)


def problem_answer(error: Exception) -> Answer:
    """The answer for an error; `internal` for one that the table does not know."""
    kind = next((KIND_OF[base] for base in type(error).__mro__ if base in KIND_OF), problems.INTERNAL)
    faults = error.faults if isinstance(error, WireError) else ()
    bodies = tuple(FaultBody(path=fault.path, problem=fault.problem) for fault in faults)
    headers = None
    if isinstance(error, TooManyRequestsError):
        headers = (("retry-after", str(error.retry_after_seconds)),)
    return _document(kind, bodies, headers)


def method_not_allowed(allowed: str) -> Answer:
    """The answer to a method that a path does not have; `allowed` is the Allow header."""
    return _document(problems.METHOD_NOT_ALLOWED, headers=(("allow", allowed),))


def _document(
    kind: ProblemKind, faults: tuple[FaultBody, ...] = (), headers: Headers | None = None
) -> Answer:
    document = Problem(
        type=kind.type, title=kind.title, status=kind.status, detail=kind.detail, faults=faults
    )
    return Answer(
        kind.status,
        document.model_dump_json(exclude_defaults=True).encode(),
        media_type=problems.MEDIA_TYPE,
        headers=_HEADERS_OF.get(kind, ()) if headers is None else headers,
    )
