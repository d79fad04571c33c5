"""LangGraph's store on the same PostgreSQL: `python -m tests.bench.peer_langgraph URL MEMORIES REPETITIONS`.

Runs in the peers' environment, which has LangGraph and nothing of ours: only the workload is imported. A text's hash is
its key, so that a repeat finds the entry that is there, as Lorebus does. Prints medians as JSON.
"""

import asyncio
import hashlib
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg
from langgraph.store.base import PutOp
from langgraph.store.postgres.aio import AsyncPostgresStore

from tests.bench.workload import save_work

DATABASE: Final = "bench_langgraph"
CALLERS: Final = 8
BATCH: Final = 100
WHAT: Final = "in process, no HTTP"


async def measure(server_url: str, memories: int, repetitions: int) -> dict[str, object]:
    """Memories a second, put one by one by 8 callers and in batches of 100."""
    await _make_database(server_url)
    url = urlsplit(server_url)._replace(path=f"/{DATABASE}").geturl()
    pool = {"min_size": CALLERS, "max_size": CALLERS}
    async with AsyncPostgresStore.from_conn_string(url, pool_config=pool) as store:
        await store.setup()
        singly, batched = [], []
        for repetition in range(repetitions):
            singly.append(await _rate(store, _puts(memories, 2 * repetition), 1))
            batched.append(await _rate(store, _puts(memories, 2 * repetition + 1), BATCH))
    return {
        "saves_per_second": statistics.median(singly),
        "batched_per_second": statistics.median(batched),
        "what": WHAT,
    }


def _puts(memories: int, seed: int) -> list[Any]:
    return [
        PutOp(
            (f"config-{of.config}", f"user-{of.principal}"),
            hashlib.sha256(one.text.lower().encode()).hexdigest(),
            {"text": one.text, "importance": one.importance},
        )
        for of in save_work(memories=memories, per_post=1, seed=seed).posts
        for one in of.memories
    ]


async def _rate(store: Any, puts: Sequence[Any], size: int) -> float:  # noqa: ANN401 - Of another environment.
    batches = [puts[start : start + size] for start in range(0, len(puts), size)]
    waiting = iter(batches)

    async def call() -> None:
        for batch in waiting:
            await store.abatch(batch)

    return len(puts) / await _seconds(lambda: asyncio.gather(*(call() for _ in range(CALLERS))))


async def _seconds(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def _make_database(server_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(server_url, autocommit=True) as server:
        await server.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        await server.execute(f"CREATE DATABASE {DATABASE}")


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
