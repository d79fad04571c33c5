"""The bare trial's consumer: `python -m tests.bench.trial_consumer DATABASE_URL BOOTSTRAP_SERVERS`.

A batch is one sorted upsert in one transaction, then its offsets are committed.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Iterable
from typing import Any, Final

import asyncpg
import uvloop
from aiokafka import AIOKafkaConsumer

from tests.bench.trial_gateway import PLANNING, TOPIC
from tests.bench.trial_store import UPSERT, fingerprint

BATCH: Final = 500
GROUP: Final = "bench.trial"
WAIT_MILLISECONDS: Final = 200
_Row = tuple[str, str, bytes, str, float, int]


def folded(records: Iterable[Any]) -> list[_Row]:
    """A row for each text of a scope, in the order of its identity: two batches cannot deadlock."""
    rows: dict[tuple[str, str, bytes], _Row] = {}
    for record in records:
        config, principal = record.key.decode().split("/", 1)
        for entry in json.loads(record.value)["entries"]:
            key = (config, principal, fingerprint(entry["text"]))
            before = rows.get(key)
            if before is None:
                rows[key] = (*key, entry["text"], entry["importance"], 0)
            else:
                rows[key] = (*key, before[3], max(before[4], entry["importance"]), before[5] + 1)
    return [rows[key] for key in sorted(rows)]


async def consume(database_url: str, servers: str) -> None:
    """Save batches until SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    consumer = AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=servers,
        group_id=GROUP,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=2_000,
        heartbeat_interval_ms=600,
    )
    connection = await asyncpg.connect(database_url, server_settings=dict(PLANNING))
    await consumer.start()
    try:
        while not stopping.is_set():
            batches = await consumer.getmany(timeout_ms=WAIT_MILLISECONDS, max_records=BATCH)
            rows = folded(record for batch in batches.values() for record in batch)
            if rows:
                await connection.execute(UPSERT, *map(list, zip(*rows, strict=True)))
                await consumer.commit()
    finally:
        await consumer.stop()
        await connection.close()


if __name__ == "__main__":
    uvloop.run(consume(sys.argv[1], sys.argv[2]))
