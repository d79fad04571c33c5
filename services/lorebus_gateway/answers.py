"""Answers as they go over the wire: a status, a body that is JSON or text, and headers."""

from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from starlette.types import Send

from lorebus_contracts.http_answers import Accepted
from lorebus_contracts.wire import WireModel

JSON: Final = "application/json"

Headers: TypeAlias = tuple[tuple[str, str], ...]
"""Names in lower case, and their values."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer; `headers` are those besides content type and length."""

    status: int
    body: bytes = b""
    media_type: str = JSON
    headers: Headers = ()


def answer(status: int, model: WireModel, *, headers: Headers = ()) -> Answer:
    """The model as a JSON answer."""
    return Answer(status, model.model_dump_json().encode(), headers=headers)


def accepted(workflow_id: UUID) -> Answer:
    """202, with the run to ask after."""
    return answer(202, Accepted(workflow_id=workflow_id), headers=run_location(workflow_id))


def run_location(workflow_id: UUID) -> Headers:
    """The header that says where a run's status is."""
    return (("location", f"/api/workflows/{workflow_id}"),)


async def send_answer(given: Answer, send: Send) -> None:
    """Send the answer in one go."""
    headers = [(b"content-length", str(len(given.body)).encode())]
    if given.body:
        headers.append((b"content-type", given.media_type.encode()))
    headers += [(name.encode(), value.encode()) for name, value in given.headers]
    await send({"type": "http.response.start", "status": given.status, "headers": headers})
    await send({"type": "http.response.body", "body": given.body})
