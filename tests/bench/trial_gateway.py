"""The bare trial's gateway: `python -m tests.bench.trial_gateway PORT DATABASE_URL BOOTSTRAP_SERVERS`.

A raw ASGI application under uvicorn, loop and parser as Lorebus's gateway has them. A save is published as it came and
answered when the broker has confirmed it; a load is one or two statements. `POST /nothing` is the trivial application.
"""

import json
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

import asyncpg
import uvicorn
import uvloop
from aiokafka import AIOKafkaProducer

from tests.bench.trial_store import NEWEST, pack, packed

TOPIC: Final = "bench.trial"
CONNECTIONS: Final = 8
PLANNING: Final[Mapping[str, str]] = {"plan_cache_mode": "force_generic_plan"}
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class TrialGateway:
    """The application."""

    def __init__(self, pool: asyncpg.Pool, producer: AIOKafkaProducer) -> None:
        self._pool = pool
        self._producer = producer

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        _, what, *words = scope["path"].split("/")
        body = await _body(receive)
        match what:
            case "save":
                await self._save(scope["raw_path"], body)
                await _answer(send, 202, b'{"status":"accepted"}')
            case "newest":
                async with self._pool.acquire() as connection:
                    rows = await connection.fetch(NEWEST, *words)
                await _answer(send, 200, _memory([row["text"] for row in rows]))
            case "pack":
                cue = packed(json.loads(body)["cue"].casefold().split())
                async with self._pool.acquire() as connection:
                    texts = await pack(connection, words, cue)
                await _answer(send, 200, _memory(texts))
            case _:
                await _answer(send, 202, b"{}")

    async def _save(self, path: bytes, body: bytes) -> None:
        key = unquote(path.decode("ascii")).removeprefix("/save/").encode()
        confirmed = await self._producer.send(TOPIC, body, key=key)
        await confirmed


def _memory(texts: Sequence[str]) -> bytes:
    return json.dumps({"memory": "\n---\n".join(texts), "count": len(texts)}).encode()


async def _body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def _answer(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def serve(port: int, database_url: str, servers: str) -> None:
    """Answer until SIGTERM."""
    producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all", linger_ms=0)
    await producer.start()
    async with asyncpg.create_pool(
        database_url, min_size=CONNECTIONS, max_size=CONNECTIONS, server_settings=dict(PLANNING)
    ) as pool:
        config = uvicorn.Config(
            TrialGateway(pool, producer),
            port=port,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=75,
        )
        try:
            await uvicorn.Server(config).serve()
        finally:
            await producer.stop()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
