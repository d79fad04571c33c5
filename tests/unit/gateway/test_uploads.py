"""Files as bodies: never beyond their limit, whatever is announced, and gone with their request."""

import hashlib
from collections.abc import Sequence
from typing import Final

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message, Scope

from lorebus_gateway.errors import FileTooLargeError, UnsupportedFileTypeError
from lorebus_gateway.uploads import uploaded

SECONDS: Final = 30.0


class Body:
    """A body that comes in chunks."""

    def __init__(self, *chunks: bytes) -> None:
        self.left = list(chunks)

    async def receive(self) -> Message:
        chunk = self.left.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(self.left)}


def scope_of(**headers: str) -> Scope:
    told = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "headers": told}


async def test_a_file_is_there_as_long_as_its_request() -> None:
    async with uploaded(scope_of(), Body(b"a line\n", b"", b"another").receive, seconds=SECONDS) as upload:
        upload.file.seek(0)
        assert upload.file.read() == b"a line\nanother"
        assert upload.digest == hashlib.sha256(b"a line\nanother").digest()
    assert upload.file.closed


@pytest.mark.parametrize(
    "chunks", [[b"12345678901"], [b"1234567890", b"1"], [b"12345", b"67890", b"1", b"2"]]
)
async def test_a_file_is_read_no_further_than_its_limit(chunks: Sequence[bytes]) -> None:
    body = Body(*chunks)
    with pytest.raises(FileTooLargeError):
        async with uploaded(scope_of(), body.receive, most_bytes=10, seconds=SECONDS):
            pytest.fail("it is too large")
    assert len(body.left) <= 1


async def test_a_file_of_just_the_limit_is_taken() -> None:
    async with uploaded(
        scope_of(content_length="10"), Body(b"1234567890").receive, most_bytes=10, seconds=SECONDS
    ) as upload:
        assert upload.file.tell() == 10


async def test_a_file_that_is_announced_too_large_is_not_read() -> None:
    body = Body(b"1")
    with pytest.raises(FileTooLargeError):
        async with uploaded(scope_of(content_length="11"), body.receive, most_bytes=10, seconds=SECONDS):
            pytest.fail("it is too large")
    assert body.left == [b"1"]


@pytest.mark.parametrize(
    "media_type",
    [
        "application/x-ndjson",
        "application/jsonl",
        "Application/X-NDJSON; charset=utf-8",
        "application/ndjson",
    ],
)
async def test_json_lines_are_known_by_their_names(media_type: str) -> None:
    async with uploaded(scope_of(content_type=media_type), Body(b"").receive, seconds=SECONDS) as upload:
        assert upload.file.tell() == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"content_type": "application/json"},
        {"content_type": "application/x-ndjson; charset=latin-1"},
        {"content_type": "text/plain"},
        {"content_encoding": "gzip"},
    ],
)
async def test_anything_else_is_not_read(headers: dict[str, str]) -> None:
    body = Body(b"1")
    with pytest.raises(UnsupportedFileTypeError):
        async with uploaded(scope_of(**headers), body.receive, seconds=SECONDS):
            pytest.fail("it is no file")
    assert body.left == [b"1"]


async def test_a_client_that_goes_away_leaves_no_file() -> None:
    async def gone() -> Message:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientDisconnect):
        async with uploaded(scope_of(), gone, seconds=SECONDS):
            pytest.fail("there is no body")
