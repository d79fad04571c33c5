"""Searches of what lies in a database or on the bus after a test (`tests.support.outputs` says what for)."""

from typing import Final

import asyncpg

from lorebus_kit.cluster import partitions_of
from lorebus_kit.whole_topics import read_all
from tests.support.outputs import Outputs

_THERE: Final = "SELECT to_regclass('lorebus.workflow_runs') IS NOT NULL"
_RUNS: Final = """
SELECT type, state_name, CAST(state_data AS text) || coalesce(CAST(history AS text), '') AS told
FROM lorebus.workflow_runs
"""


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
    partitions = {
        partition: name
        for name, found in (await partitions_of(bootstrap_servers)).items()
        if name.endswith(".dlq") and name.startswith(prefix)
        for partition in found
    }
    async with read_all(bootstrap_servers, partitions) as records:
        async for name, record in records:
            for header, value in record.headers:
                told = f"{header}: {(value or b'').decode(errors='replace')}"
                outputs.search(f"a header of {name}", told)
