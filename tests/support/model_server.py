"""A model's endpoint over real HTTP, which behaves like the bad ones do: as the test says, request by request."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tests.support.waiting import until

MODEL: Final = "tiny-instruct"
PROMPT_TOKENS: Final = 700
COMPLETION_TOKENS: Final = 40
_REASONS: Final = {200: "OK", 400: "Bad Request", 429: "Too Many Requests"}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came in."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def prompt(self) -> str:
        """All that the model would see."""
        return "\n".join(message["content"] for message in self.body["messages"])


Behaviour: TypeAlias = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]
"""What is done with a request; the connection is closed afterwards."""


def completion(content: object, **more: object) -> dict[str, Any]:
    """A chat completion as the usual endpoints send it; `more` goes into its message."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_780_000_000,
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": content, **more},
            }
        ],
        "usage": {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": COMPLETION_TOKENS,
            "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
        },
    }


def lessons(*texts: str) -> str:
    """An answer with these lessons."""
    return json.dumps({"lessons": [{"text": text, "importance": 0.5} for text in texts]})


def says(content: object, **more: object) -> Behaviour:
    """Answer with a completion that has this content."""
    return sends(completion(content, **more))


def sends(body: object, *, content_type: str = "application/json") -> Behaviour:
    """Answer 200 with this body, JSON unless it is bytes already."""

    async def behave(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        await _send(writer, 200, _bytes(body), {"content-type": content_type})

    return behave


def fails(status: int, *, body: object = None, **headers: str) -> Behaviour:
    """Answer with an error; `retry_after="2"` is the header Retry-After."""

    async def behave(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        told = body if body is not None else {"error": {"message": "no", "type": "server_error"}}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        await _send(writer, status, _bytes(told), {"content-type": "application/json", **named})

    return behave


def stalls(content: object = "", *, after_bytes: int = 40) -> Behaviour:
    """Begin to answer, and then send nothing more until the other side gives up."""

    async def behave(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        body = _bytes(completion(content))
        writer.write(_head(200, len(body), {"content-type": "application/json"}) + body[:after_bytes])
        await writer.drain()
        await writer.wait_closed()

    return behave


def breaks_off(content: object = "", *, after_bytes: int = 40) -> Behaviour:
    """Begin to answer, and then close the connection."""

    async def behave(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        body = _bytes(completion(content))
        writer.write(_head(200, len(body), {"content-type": "application/json"}) + body[:after_bytes])
        await writer.drain()

    return behave


def hangs() -> Behaviour:
    """Take the request and say nothing until the other side gives up."""

    async def behave(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        await writer.wait_closed()

    return behave


def refuses_format(otherwise: Behaviour, *, status: int = 400) -> Behaviour:
    """Refuse a request that has a response_format; answer any other."""
    refusal = fails(status, body={"error": {"message": "response_format is not supported"}})

    async def behave(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await (refusal if "response_format" in asked.body else otherwise)(asked, writer)

    return behave


@dataclass(slots=True)
class ModelServer:
    """The endpoint: the first requests are met as `script` says, all others as `otherwise` says."""

    port: int
    otherwise: Behaviour = field(default_factory=lambda: says(lessons()))
    script: list[Behaviour] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    now: int = 0
    """How many requests are in hand."""

    _serving: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    @property
    def base_url(self) -> str:
        """As a profile names it."""
        return f"http://127.0.0.1:{self.port}/v1"

    def profile(self, **more: object) -> dict[str, object]:
        """A profile for this endpoint."""
        return {"base_url": self.base_url, "model": MODEL, "api_key": "sk-of-the-tests", **more}

    async def until_asked(self, times: int) -> None:
        """Wait until so many requests have come in."""
        await until(lambda: len(self.asked) >= times, what=f"the model is asked {times} times")

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving[task] = writer
        task.add_done_callback(self._serving.pop)

    async def close(self) -> None:
        """Give up whatever is in hand."""
        serving = dict(self._serving)
        for task, writer in serving.items():
            task.cancel()
            writer.transport.abort()
        ended = (writer.wait_closed() for writer in serving.values())
        await asyncio.gather(*serving, *ended, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            asked = await _read(reader)
            self.asked.append(asked)
            self.now += 1
            behaviour = self.script.pop(0) if self.script else self.otherwise
            watch = asyncio.create_task(_close_at_end(reader, writer))
            try:
                await behaviour(asked, writer)
            finally:
                self.now -= 1
                watch.cancel()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def model_server(*script: Behaviour, otherwise: Behaviour | None = None) -> AsyncIterator[ModelServer]:
    """An endpoint on loopback for as long as the block runs."""
    made = ModelServer(port=0, script=list(script))
    if otherwise is not None:
        made.otherwise = otherwise
    server = await asyncio.start_server(made.accept, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await made.close()


async def _close_at_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Let a behaviour that waits for the other side notice that it has gone."""
    with suppress(ConnectionError):
        await reader.read()
    writer.close()


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    request, *lines = head.split("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(request.split()[1], headers, json.loads(body))


async def _send(writer: asyncio.StreamWriter, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    writer.write(_head(status, len(body), headers) + body)
    await writer.drain()


def _head(status: int, length: int, headers: Mapping[str, str]) -> bytes:
    lines: Sequence[str] = (
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Something')}",
        *(f"{name}: {value}" for name, value in headers.items()),
        f"content-length: {length}",
        "connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode()


def _bytes(body: object) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()
