"""The gauges that are sampled, and those of the process itself."""

import gc
from uuid import UUID

from lorebus_kit.metrics import REGISTRY
from lorebus_kit.pools import watch_pool
from lorebus_kit.sampler import Sampler
from lorebus_store import outbox
from lorebus_store.acting import NOBODY
from lorebus_store.database import Database
from lorebus_store.outbox import OutboxRow
from tests.support.databases import ArrangedDatabase

SAVES = {"type": "agents.memory-save", "state": "initiated"}


async def test_a_sample_tells_what_waits(database_url: str) -> None:
    database = ArrangedDatabase(database_url)
    async with database.begin() as connection:
        await outbox.add(connection, [OutboxRow(UUID(int=1), "memory.changed", b"a", b"1", UUID(int=2))])

    sampled = await Sampler(database).sample()

    await database.dispose()
    assert sampled
    assert REGISTRY.get_sample_value("lorebus_outbox_rows") == 1
    assert REGISTRY.get_sample_value("lorebus_runs", SAVES) == 0
    assert (REGISTRY.get_sample_value("lorebus_sampled_timestamp_seconds") or 0) > 1_700_000_000


async def test_a_pool_tells_how_many_of_its_connections_are_in_use(database_url: str) -> None:
    # Pools of tests before this one, which nobody holds any more, are not to go while it counts.
    gc.collect()
    database = Database(database_url, pool_size=3)
    before = {
        state: REGISTRY.get_sample_value("lorebus_database_connections", {"state": state}) or 0
        for state in ("size", "in_use")
    }
    watch_pool(database)

    async with database.read(NOBODY):
        now = {
            state: REGISTRY.get_sample_value("lorebus_database_connections", {"state": state}) or 0
            for state in ("size", "in_use")
        }

    await database.dispose()
    assert now["size"] - before["size"] == 3
    assert now["in_use"] - before["in_use"] == 1
