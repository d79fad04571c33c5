"""A body that does not come in time is not waited for, whatever it was to be."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Final

import pytest

from tests.support.gateways import Asking, running_gateway

SECONDS: Final = 20.0
IMPORT: Final = "/api/app/agents/memory/import?agent_config_uuid=6f1f0a9e-2c3f-4b1d-8a55-0d9b6f6f1a11"


@pytest.fixture
async def impatient(database_url: str) -> AsyncIterator[Asking]:
    """A gateway that gives a body little time."""
    async with running_gateway(database_url, body_timeout_seconds=0.2) as gateway:
        yield gateway


async def answer_to(gateway: Asking, path: str, *, media_type: str, sent: bytes) -> tuple[bytes, bytes]:
    """Head and body of the answer to a request of 100 bytes that stops after those sent; read until it is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
    try:
        writer.write(
            f"POST {path} HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {gateway.api_key}\r\n"
            f"content-type: {media_type}\r\ncontent-length: 100\r\n\r\n".encode()
            + sent
        )
        async with asyncio.timeout(SECONDS):
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        return head, body
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/api/app/agents/sessions", "application/json"),
        (IMPORT, "application/x-ndjson"),
        ("/mcp", "application/json"),
    ],
)
@pytest.mark.parametrize("sent", [b"", b'{"agent_config'])
async def test_a_body_that_stops_on_its_way_is_answered_408_and_the_connection_closed(
    impatient: Asking, path: str, media_type: str, sent: bytes
) -> None:
    head, body = await answer_to(impatient, path, media_type=media_type, sent=sent)

    assert head.startswith(b"HTTP/1.1 408 ")
    assert b"\r\nconnection: close" in head
    assert json.loads(body)["type"] == "urn:lorebus:problem:body-too-slow"


async def test_a_body_in_time_is_answered_as_ever(impatient: Asking) -> None:
    config = await impatient.config()

    assert (await impatient.session(config)).token
