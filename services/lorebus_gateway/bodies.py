"""Reading a request's body and query, before anything is made of them.

The rule that must not break: a body is read once and never beyond its limit, whatever its headers say.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from time import monotonic
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from lorebus_contracts.wire import Fault, WireError
from lorebus_domain import policy
from lorebus_gateway.errors import BodyTooLargeError, BodyTooSlowError, UnsupportedMediaTypeError

_JSON_TYPE: Final = re.compile(
    rb'application/(?:json|[-\w.]+\+json)\s*(?:;\s*charset\s*=\s*"?utf-?8"?\s*)?', re.IGNORECASE
)
_PLAIN_JSON: Final = b"application/json"
_MAX_QUERY_FIELDS: Final = 20
_TIMED_BYTES: Final = 1024 * 1024


def header(scope: Scope, name: bytes) -> bytes | None:
    """The header's value, `name` in lower case; None when it is not there, or there more than once."""
    values = [value for found, value in scope["headers"] if found == name]
    return bytes(values[0]) if len(values) == 1 else None


async def read_body(scope: Scope, receive: Receive, *, seconds: float) -> bytes:
    """The whole body, at most 1 MiB, which has to come within so many seconds. One without a content type is JSON.

    Raises:
        UnsupportedMediaTypeError: it says that it is something else than JSON in UTF-8, or that it is packed.
        BodyTooLargeError: it is announced with, or turns out to have, more than 1 MiB.
        BodyTooSlowError: it did not come in time.
        ClientDisconnect: the client went away.
    """
    _check_media_type(scope)
    _check_announced_length(scope)
    with _in_time():
        async with asyncio.timeout(seconds):
            body, more = await _chunk(receive)
            if not more:
                return _within_limit(body)
            return await _with_the_rest(body, receive)


async def body_chunks(receive: Receive, *, seconds: float) -> AsyncIterator[bytes]:
    """The body as it comes, for whoever sets its limit; each MiB has to come within so many seconds.

    Raises:
        BodyTooSlowError: it did not come in time.
        ClientDisconnect: the client went away.
    """
    more, begun, ends_at = True, 0, monotonic() + seconds
    while more:
        with _in_time():
            async with asyncio.timeout(ends_at - monotonic()):
                chunk, more = await _chunk(receive)
        begun += len(chunk)
        if begun >= _TIMED_BYTES:
            begun, ends_at = 0, monotonic() + seconds
        yield chunk


def read_query(scope: Scope) -> dict[str, str]:
    """The query's fields.

    Raises:
        WireError: it is not UTF-8, has a field twice, or has more than 20.
    """
    raw: bytes = scope["query_string"]
    if not raw:
        return {}
    try:
        text = raw.decode("ascii")
        fields = parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_QUERY_FIELDS, errors="strict")
    except ValueError as error:
        raise WireError(Fault("", f"is a query of UTF-8 with at most {_MAX_QUERY_FIELDS} fields")) from error
    found = dict(fields)
    if len(found) != len(fields):
        raise WireError(Fault("", "has a field of the query twice; each may stand once"))
    return found


def _check_media_type(scope: Scope) -> None:
    """Refuse what is no JSON; and what is packed, since a small body may unpack to an immense one."""
    if any(name == b"content-encoding" and value.lower() != b"identity" for name, value in scope["headers"]):
        raise UnsupportedMediaTypeError
    media_type = header(scope, b"content-type")
    if media_type is None or media_type == _PLAIN_JSON:
        return
    if not _JSON_TYPE.fullmatch(media_type.strip()):
        raise UnsupportedMediaTypeError


def _check_announced_length(scope: Scope) -> None:
    announced = header(scope, b"content-length")
    if announced is not None and announced.isdigit() and int(announced) > policy.MAX_BODY_BYTES:
        raise BodyTooLargeError


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise BodyTooSlowError from error


async def _with_the_rest(first: bytes, receive: Receive) -> bytes:
    chunks, length, more = [first], len(first), True
    while more:
        chunk, more = await _chunk(receive)
        chunks.append(chunk)
        length += len(chunk)
        if length > policy.MAX_BODY_BYTES:
            raise BodyTooLargeError
    return b"".join(chunks)


async def _chunk(receive: Receive) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message.get("body", b""), message.get("more_body", False)


def _within_limit(body: bytes) -> bytes:
    if len(body) > policy.MAX_BODY_BYTES:
        raise BodyTooLargeError
    return body
