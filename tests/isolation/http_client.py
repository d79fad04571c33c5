"""A small HTTP/1.1 client that keeps every byte of an answer, its head included, and costs little per request."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httptools

_DEADLINE_SECONDS: Final = 60.0
_MAX_CONNECTIONS: Final = 24


@dataclass(frozen=True, slots=True)
class Answer:
    """All that came back: the head's values and the body, whatever their media type."""

    status: int
    head: bytes
    body: bytes

    def json(self) -> Any:  # noqa: ANN401 - JSON is anything.
        """The body as JSON; None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class _Exchange(asyncio.Protocol):
    """One connection, on which one request after the other is answered."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._done: asyncio.Future[Answer] | None = None
        self._head: list[bytes] = []
        self._body: list[bytes] = []
        self.on_chunk: Callable[[bytes], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._done is not None and not self._done.done():
            self._done.set_exception(exc or ConnectionResetError("the server ended the connection"))

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head += (name, b": ", value, b"\n")

    def on_body(self, body: bytes) -> None:
        (self._body.append if self.on_chunk is None else self.on_chunk)(body)

    def on_message_complete(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(
                Answer(self._parser.get_status_code(), b"".join(self._head), b"".join(self._body))
            )

    @property
    def is_open(self) -> bool:
        """Whether another request may be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes) -> Answer:
        """Send a request and wait for the whole answer."""
        assert self._transport is not None
        self._parser = httptools.HttpResponseParser(self)
        self._head, self._body = [], []
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._done

    def close(self) -> None:
        """Let go of the connection."""
        if self._transport is not None:
            self._transport.close()


class HttpClient:
    """Asks one server over a few connections."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._host, self._port = str(address.hostname), int(address.port or 80)
        self._idle: list[_Exchange] = []
        self._free = asyncio.Semaphore(_MAX_CONNECTIONS)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        credentials: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The answer to a request.

        Raises:
            TimeoutError: there was none in time.
            OSError: the server ended the connection.
        """
        request = self._request(method, path, credentials, body, headers or {})
        async with self._free, asyncio.timeout(_DEADLINE_SECONDS):
            exchange = await self._connection()
            try:
                answer = await exchange.ask(request)
            except BaseException:
                exchange.close()
                raise
            self._idle.append(exchange)
            return answer

    async def follow(self, path: str, *, credentials: str, on_chunk: Callable[[bytes], None]) -> "Stream":
        """Open a stream of which each piece is handed over as it comes."""
        exchange = await self._connect()
        exchange.on_chunk = on_chunk
        asked = asyncio.create_task(exchange.ask(self._request("GET", path, credentials, None, {})))
        return Stream(exchange, asked)

    def close(self) -> None:
        """Let go of all connections."""
        for exchange in self._idle:
            exchange.close()
        self._idle.clear()

    async def _connection(self) -> _Exchange:
        while self._idle:
            exchange = self._idle.pop()
            if exchange.is_open:
                return exchange
        return await self._connect()

    async def _connect(self) -> _Exchange:
        loop = asyncio.get_running_loop()
        _, exchange = await loop.create_connection(_Exchange, self._host, self._port)
        return exchange

    def _request(
        self, method: str, path: str, credentials: str, body: bytes | None, headers: Mapping[str, str]
    ) -> bytes:
        lines = [
            f"{method} {path} HTTP/1.1",
            f"host: {self._host}:{self._port}",
            f"authorization: {credentials}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        if body is not None:
            if "content-type" not in headers:
                lines.append("content-type: application/json")
            lines.append(f"content-length: {len(body)}")
        return "\r\n".join((*lines, "", "")).encode() + (body or b"")


class Stream:
    """An answer that goes on."""

    def __init__(self, exchange: _Exchange, asked: "asyncio.Task[Answer]") -> None:
        self._exchange = exchange
        self._asked = asked

    async def close(self) -> None:
        """Go away, as a client does."""
        self._exchange.close()
        await asyncio.gather(self._asked, return_exceptions=True)
