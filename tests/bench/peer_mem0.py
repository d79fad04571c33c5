"""mem0's library on the same PostgreSQL: `python -m tests.bench.peer_mem0 URL MEMORIES REPETITIONS`.

Runs in the peers' environment, which has mem0 and nothing of ours: only the workload is imported. Texts are kept as
they are (`infer=False`), and their vectors are made of a hash, so that no model's time is counted: a mem0 that is used
in earnest is slower. It is slow enough for a tenth of the memories. Prints medians as JSON.
"""

import hashlib
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg

from tests.bench.workload import Memory, Post, save_work

DATABASE: Final = "bench_mem0"
CALLERS: Final = 8
PART: Final = 10
"""One of so many memories is saved."""
DIMENSIONS: Final = 384
WHAT: Final = "in process, no HTTP; vectors without a model; keeps a repeat as a second entry"


class HashedVectors:
    """What stands for a model: the same text has the same vector, for no time worth counting."""

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:  # noqa: ARG002 - mem0's.
        """Numbers in [-1, 1], as many as a small model gives."""
        rng = random.Random(hashlib.sha256(text.encode()).digest())
        return [2 * rng.random() - 1 for _ in range(DIMENSIONS)]

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        """One after the other."""
        return [self.embed(text, memory_action) for text in texts]


def measure(server_url: str, memories: int, repetitions: int) -> dict[str, object]:
    """Memories a second, added one by one by 8 callers."""
    url = urlsplit(server_url)._replace(path=f"/{DATABASE}").geturl()
    _make_database(server_url, url)
    with tempfile.TemporaryDirectory(prefix="lorebus-bench-") as folder:
        # Both are read when mem0 is imported: its folder, and that it tells nobody what it does.
        os.environ |= {"MEM0_DIR": folder, "MEM0_TELEMETRY": "False"}
        memory = _memory(url, folder)
        rates = [_rate(memory, memories // PART, seed) for seed in range(repetitions)]
    return {"saves_per_second": statistics.median(rates), "what": WHAT}


def _memory(url: str, folder: str) -> Any:  # noqa: ANN401 - Of another environment.
    from mem0 import Memory as Mem0  # noqa: PLC0415 - See where this is called.

    store = {"connection_string": url, "embedding_model_dims": DIMENSIONS, "maxconn": CALLERS}
    unused = {"provider": "openai", "config": {"api_key": "unused"}}
    memory = Mem0.from_config(
        {
            "vector_store": {"provider": "pgvector", "config": store},
            "embedder": unused,
            "llm": unused,
            "history_db_path": f"{folder}/history.db",
        }
    )
    memory.embedding_model = HashedVectors()
    return memory


def _rate(memory: Any, memories: int, seed: int) -> float:  # noqa: ANN401 - Of another environment.
    posts = save_work(memories=max(CALLERS, memories), per_post=1, seed=seed).posts

    def add(post: Post) -> None:
        one: Memory = post.memories[0]
        memory.add(
            one.text,
            user_id=f"user-{post.principal}",
            agent_id=f"config-{post.config}",
            metadata={"importance": one.importance},
            infer=False,
        )

    began = time.perf_counter()
    with ThreadPoolExecutor(CALLERS) as callers:
        # Whatever one of them raises is raised here.
        list(callers.map(add, posts))
    return len(posts) / (time.perf_counter() - began)


def _make_database(server_url: str, url: str) -> None:
    with psycopg.connect(server_url, autocommit=True) as server:
        server.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        server.execute(f"CREATE DATABASE {DATABASE}")
    with psycopg.connect(url, autocommit=True) as database:
        # mem0 makes it on two connections at once, and one of them fails.
        database.execute("CREATE EXTENSION vector")


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
