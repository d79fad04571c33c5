"""Searches of what lies in a database or on the bus after a test (`tests.support.outputs` says what for)."""

from typing import Final

import asyncpg
from aiokafka import TopicPartition

from lorebus_kit.cluster import partitions_of
from lorebus_kit.guarded_consumer import GuardedConsumer
from tests.support.outputs import Outputs

_THERE: Final = "SELECT to_regclass('lorebus.workflow_runs') IS NOT NULL"
_RUNS: Final = """
SELECT type, state_name, CAST(state_data AS text) || coalesce(CAST(history AS text), '') AS told
FROM lorebus.workflow_runs
"""
_FETCH_MS: Final = 50


async def search_runs(outputs: Outputs, owner_url: str) -> None:
    """Search what all runs of a database tell of themselves, their failures first of all."""
    connection = await asyncpg.connect(owner_url)
    try:
        if await connection.fetchval(_THERE):
            for row in await connection.fetch(_RUNS):
                outputs.search(f"a {row['state_name']} run of {row['type']}", row["told"])
    finally:
        await connection.close()


async def search_dead_letters(outputs: Outputs, bootstrap_servers: str, *, prefix: str = "") -> None:
    """Search the headers of all dead letters whose topics begin so."""
    reader = GuardedConsumer(
        bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest", fetch_max_wait_ms=_FETCH_MS
    )
    await reader.start()
    try:
        partitions = [
            partition
            for name, found in (await partitions_of(bootstrap_servers)).items()
            if name.endswith(".dlq") and name.startswith(prefix)
            for partition in found
        ]
        await _search(outputs, reader, partitions)
    finally:
        await reader.stop()


async def _search(outputs: Outputs, reader: GuardedConsumer, partitions: list[TopicPartition]) -> None:
    ends = await reader.end_offsets(partitions) if partitions else {}
    waiting = {tp for tp, end in ends.items() if end}
    if not waiting:
        return
    reader.assign(list(waiting))
    for tp in waiting:
        reader.seek(tp, 0)
    while waiting:
        fetched = await reader.getmany(*waiting, timeout_ms=_FETCH_MS)
        for record in (record for records in fetched.values() for record in records):
            for name, value in record.headers:
                told = f"{name}: {(value or b'').decode(errors='replace')}"
                outputs.search(f"a header of {record.topic}", told)
        for tp in tuple(waiting):
            end = reader.highwater(tp)
            if end is not None and await reader.position(tp) >= end:
                waiting.discard(tp)
