"""HTTP/1.1 as small as it gets: requests are bytes made beforehand, of an answer its status and body are read.

One request at a time on a connection that is kept. It takes some 15 microseconds a request where a full client takes
hundreds, so that on a machine of two cores the server is measured and not the client.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, cast
from urllib.parse import urlsplit

_END_OF_HEAD: Final = b"\r\n\r\n"
_LENGTH: Final = b"\r\ncontent-length:"
_STATUS: Final = slice(9, 12)


class Answer(NamedTuple):
    """What came back."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> "Address":
        """Of an address that names its port."""
        parts = urlsplit(url)
        return cls(parts.hostname or "", parts.port or 80)


def post(path: str, body: Mapping[str, object] | None = None, *, authorization: str = "") -> bytes:
    """A POST with a JSON body."""
    return request("POST", path, body, authorization=authorization)


def request(
    method: str, path: str, body: Mapping[str, object] | None = None, *, authorization: str = ""
) -> bytes:
    """Any request, as it goes over the wire."""
    content = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
    if authorization:
        head += f"authorization: {authorization}\r\n"
    return f"{head}content-length: {len(content)}\r\n\r\n".encode("ascii") + content


class Connection(asyncio.Protocol):
    """One kept connection.

    Raises (of `ask`):
        ConnectionError: the server closed it.
    """

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._waiting: asyncio.Future[Answer] | None = None

    @classmethod
    async def open(cls, address: Address) -> "Connection":
        """Connect."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, address.host, address.port)
        return connection

    def ask(self, request_bytes: bytes) -> asyncio.Future[Answer]:
        """Send a request; the answer to the one before has come."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionError("the server closed the connection")
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request_bytes)
        return self._waiting

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way out."""
        # uvloop's is none of asyncio's classes, and does the same.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer whoever waits once the whole body is there."""
        self._received += data
        answer = whole_answer(self._received)
        if answer is not None and self._waiting is not None:
            self._received = b""
            waiting, self._waiting = self._waiting, None
            if not waiting.cancelled():
                waiting.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(exc or ConnectionError("the server closed the connection"))


def whole_answer(received: bytes) -> Answer | None:
    """The answer, once it is there with all of its body; servers that send no length are not asked here."""
    end = received.find(_END_OF_HEAD)
    if end < 0:
        return None
    start = end + len(_END_OF_HEAD)
    head = received[: end + 2].lower()
    at = head.find(_LENGTH)
    length = 0 if at < 0 else int(head[at + len(_LENGTH) : head.index(b"\r\n", at + 2)])
    if len(received) < start + length:
        return None
    return Answer(int(received[_STATUS]), received[start : start + length])
