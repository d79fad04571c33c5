"""The floors below everything: raw asyncpg, raw aiokafka and a trivial ASGI application, on the same servers."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final
from uuid import UUID

import asyncpg
from aiokafka import AIOKafkaProducer

from tests.bench.http_wire import post
from tests.bench.lorebus_api import config_uuid
from tests.bench.seeding import principal_name
from tests.bench.sending import send_all
from tests.bench.trial import Trial
from tests.bench.trial_store import UPSERT, fingerprint
from tests.bench.workload import save_work

CALLERS: Final = 8
CONNECTIONS: Final = 4
IN_FLIGHT: Final = 64
BATCHES: Final = (100, 500)
RECORD_BYTES: Final = 500
TOPIC: Final = "bench.floor"
_Row = tuple[UUID, str, bytes, str, float, int]


async def measure_floors(
    trial: Trial, servers: str, *, memories: int, repetitions: int
) -> AsyncIterator[tuple[str, float]]:
    """Name and figure a second, one after the other, repetition after repetition."""
    producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all", linger_ms=0)
    await producer.start()
    try:
        for repetition in range(repetitions):
            rows = _rows(memories, seed=1_000 + repetition)
            yield (
                f"raw asyncpg: upserts, {CALLERS} callers, a commit each",
                await _upserts(trial, [[row] for row in rows], CALLERS),
            )
            for size in BATCHES:
                batches = [
                    sorted(rows[start : start + size], key=lambda row: (row[0], row[1], row[2]))
                    for start in range(0, len(rows), size)
                ]
                yield (
                    f"raw asyncpg: `unnest` upserts of {size}, {CONNECTIONS} connections",
                    await _upserts(trial, batches, CONNECTIONS),
                )
            yield "raw aiokafka: confirmed one by one", await _produced(producer, memories // 4, 1)
            yield (
                f"raw aiokafka: confirmed, {IN_FLIGHT} in flight",
                await _produced(producer, memories, IN_FLIGHT),
            )
            nothing = [post("/nothing", {"content": "x" * 200})] * memories
            sent = await send_all(trial.address, nothing, callers=CALLERS)
            yield f"trivial ASGI: POSTs, {CALLERS} callers", memories / sent.seconds
    finally:
        await producer.stop()


def _rows(memories: int, *, seed: int) -> list[_Row]:
    return [
        (
            config_uuid(str(of.config)),
            principal_name(of.principal),
            fingerprint(one.text),
            one.text,
            one.importance,
            0,
        )
        for of in save_work(memories=memories, per_post=1, seed=seed).posts
        for one in of.memories
    ]


async def _upserts(trial: Trial, batches: Sequence[Sequence[_Row]], connections: int) -> float:
    await trial.database.execute("TRUNCATE mem")
    waiting = iter(batches)
    opened = [await asyncpg.connect(trial.database_url) for _ in range(connections)]

    async def call(connection: asyncpg.Connection) -> None:
        for batch in waiting:
            # The same row twice in one statement is refused.
            distinct = {row[:3]: row for row in batch}.values()
            await connection.execute(UPSERT, *map(list, zip(*distinct, strict=True)))

    try:
        return await _per_second(
            sum(map(len, batches)), lambda: asyncio.gather(*(call(one) for one in opened))
        )
    finally:
        for connection in opened:
            await connection.close()


async def _produced(producer: AIOKafkaProducer, records: int, in_flight: int) -> float:
    waiting = iter(range(records))

    async def call() -> None:
        for number in waiting:
            await producer.send_and_wait(TOPIC, b"x" * RECORD_BYTES, key=b"%d" % number)

    return await _per_second(records, lambda: asyncio.gather(*(call() for _ in range(in_flight))))


async def _per_second(count: int, work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return count / (time.perf_counter() - began)
