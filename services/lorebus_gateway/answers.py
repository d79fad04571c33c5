"""Answers as they go over the wire: a status, a body that is JSON or text, and headers; or a stream of chunks."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine
from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from starlette.types import Receive, Scope, Send

from lorebus_contracts.http_answers import Accepted
from lorebus_contracts.wire import WireModel
from lorebus_gateway.connections import cutting
from lorebus_store.errors import StoreError

JSON: Final = "application/json"

Headers: TypeAlias = tuple[tuple[str, str], ...]
"""Names in lower case, and their values."""

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer; `headers` are those besides content type and length.

    `run_id` is the run that the answer is about: its place becomes the header `Location`.
    """

    status: int
    body: bytes = b""
    media_type: str = JSON
    headers: Headers = ()
    run_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer that goes on: 200, and chunks as they come.

    `chunks` is closed when it has ended and when the client has gone away. Once `cut` is set the connection is cut, for
    a client that does not read.
    """

    chunks: AsyncGenerator[bytes, None]
    media_type: str
    headers: Headers = ()
    status: int = 200
    cut: asyncio.Event | None = None


def answer(status: int, model: WireModel, *, headers: Headers = (), run_id: UUID | None = None) -> Answer:
    """The model as a JSON answer."""
    return Answer(status, model.model_dump_json().encode(), headers=headers, run_id=run_id)


def accepted(workflow_id: UUID) -> Answer:
    """202, with the run to ask after."""
    return answer(202, Accepted(workflow_id=workflow_id), run_id=workflow_id)


async def send_answer(given: Answer, send: Send) -> None:
    """Send the answer in one go."""
    headers = [(b"content-length", str(len(given.body)).encode())]
    if given.body:
        headers.append((b"content-type", given.media_type.encode()))
    if given.run_id is not None:
        headers.append((b"location", f"/api/workflows/{given.run_id}".encode()))
    headers += _encoded(given.headers)
    await send({"type": "http.response.start", "status": given.status, "headers": headers})
    await send({"type": "http.response.body", "body": given.body})


async def send_stream(given: Stream, scope: Scope, receive: Receive, send: Send) -> None:
    """Send chunks until there are no more, or the client goes away.

    What cannot be sent to its end is cut off, so that nobody takes it for the whole.
    """
    headers = [(b"content-type", given.media_type.encode()), (b"cache-control", b"no-store")]
    headers += _encoded(given.headers)
    try:
        await send({"type": "http.response.start", "status": given.status, "headers": headers})
        if scope["method"] != "HEAD":
            await _first_done(_send_chunks(given, send), _disconnected(receive), _cut_off(given, scope))
        await send({"type": "http.response.body", "body": b""})
    except StoreError as error:
        _log.warning("an answer was cut off", extra={"error_text": str(error)})
        cutting(scope)()
    finally:
        await given.chunks.aclose()


async def _send_chunks(given: Stream, send: Send) -> None:
    async for chunk in given.chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cut_off(given: Stream, scope: Scope) -> None:
    await (given.cut or asyncio.Event()).wait()
    cutting(scope)()


async def _first_done(*works: Coroutine[None, None, None]) -> None:
    """Do all of them until one is done, and end the others; what one raises is raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def _encoded(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers]
