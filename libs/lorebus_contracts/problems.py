"""Problem documents (RFC 9457): what every answer that is not a success looks like.

The rule that must not break: a document tells what is wrong and what would be right, and repeats nothing of
what was sent. `type` is stable; a client branches on it and not on the wording.
"""

from dataclasses import dataclass
from typing import Final

from pydantic import Field

from lorebus_contracts import memory_file
from lorebus_contracts.wire import WireModel

MEDIA_TYPE: Final = "application/problem+json"
_TYPE_PREFIX: Final = "urn:lorebus:problem:"


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A kind of problem: its name, the HTTP status it goes with, and what it says when there is no more to say."""

    name: str
    status: int
    title: str
    detail: str

    @property
    def type(self) -> str:
        """The stable URI of this kind."""
        return _TYPE_PREFIX + self.name


class FaultBody(WireModel):
    """One thing wrong with a request."""

    path: str = Field(description="Dotted path in the body or query; empty for the whole.")
    problem: str = Field(description="What is wrong there, with what would be right.")


class Problem(WireModel):
    """A problem document."""

    type: str = Field(description="The kind of problem; it never changes.")
    title: str = Field(description="The kind in words.")
    status: int = Field(ge=400, le=599, description="The HTTP status.")
    detail: str = Field(description="What to make of it.")
    faults: tuple[FaultBody, ...] = Field(
        default=(), description="What is wrong, where the request is not valid."
    )


INVALID: Final = ProblemKind(
    "invalid-request",
    422,
    "The request is not valid",
    "See `faults`; nothing of the request was carried out.",
)
NOT_AUTHENTICATED: Final = ProblemKind(
    "not-authenticated", 401, "Not authenticated", "A valid session token or API key is needed."
)
FORBIDDEN: Final = ProblemKind("forbidden", 403, "Forbidden", "The credentials given do not reach this.")
NOT_FOUND: Final = ProblemKind("not-found", 404, "Not found", "There is no such thing, or it is not yours.")
METHOD_NOT_ALLOWED: Final = ProblemKind(
    "method-not-allowed", 405, "Method not allowed", "See the Allow header for the methods of this path."
)
BODY_TOO_SLOW: Final = ProblemKind(
    "body-too-slow",
    408,
    "Body too slow",
    "The body did not come in time, so nothing was carried out; the connection is closed. Send it again.",
)
CONFLICT: Final = ProblemKind("conflict", 409, "Conflict", "What is there already says otherwise.")
KEY_REUSED: Final = ProblemKind(
    "idempotency-key-reused",
    409,
    "Idempotency-Key used before",
    "This Idempotency-Key came with another body before; take a new one for a new request.",
)
IN_HAND: Final = ProblemKind(
    "request-in-hand",
    409,
    "Request in hand",
    "The first request with this Idempotency-Key is not answered yet; send the same again in a moment.",
)
BODY_TOO_LARGE: Final = ProblemKind(
    "body-too-large", 413, "Body too large", "A body may have at most 1048576 bytes."
)
UNSUPPORTED_MEDIA_TYPE: Final = ProblemKind(
    "unsupported-media-type",
    415,
    "Unsupported media type",
    "Send the body as application/json in UTF-8, and not packed.",
)
FILE_TOO_LARGE: Final = ProblemKind(
    "file-too-large",
    413,
    "File too large",
    f"A file may have at most {memory_file.MAX_FILE_BYTES} bytes; send several, each with a header and an end.",
)
UNSUPPORTED_FILE_TYPE: Final = ProblemKind(
    "unsupported-file-type",
    415,
    "Unsupported file type",
    f"Send the file as {memory_file.MEDIA_TYPE} in UTF-8, and not packed.",
)
TOO_MANY_REQUESTS: Final = ProblemKind(
    "too-many-requests",
    429,
    "Too many requests",
    "These credentials have asked for as much as they may; go on after the seconds in Retry-After.",
)
INTERNAL: Final = ProblemKind(
    "internal",
    500,
    "Internal error",
    "Something went wrong here; it has been logged. Nothing is known to be done.",
)
UNAVAILABLE: Final = ProblemKind(
    "unavailable",
    503,
    "Unavailable",
    "What is needed is away just now; nothing was accepted. Try again later.",
)

KINDS: Final = (
    INVALID,
    NOT_AUTHENTICATED,
    FORBIDDEN,
    NOT_FOUND,
    METHOD_NOT_ALLOWED,
    BODY_TOO_SLOW,
    CONFLICT,
    KEY_REUSED,
    IN_HAND,
    BODY_TOO_LARGE,
    FILE_TOO_LARGE,
    UNSUPPORTED_MEDIA_TYPE,
    UNSUPPORTED_FILE_TYPE,
    TOO_MANY_REQUESTS,
    INTERNAL,
    UNAVAILABLE,
)
"""Every kind there is, by status."""
