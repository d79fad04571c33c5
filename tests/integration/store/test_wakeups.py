"""Being woken by NOTIFY."""

from lorebus_store import outbox
from lorebus_store.database import Database
from lorebus_store.wakeups import Wakeups
from tests.integration.store.builders import (
    DEADLINE_SECONDS,
    ORGANIZATION,
    SESSION,
    StoreDatabase,
    eventually,
    value,
)

ROW = outbox.OutboxRow(ORGANIZATION, "memory.changed", b"key", b"payload", SESSION)


async def listening(wakeups: Wakeups) -> None:
    async def is_connected() -> bool:
        return wakeups.is_connected

    await eventually(is_connected)
    # To begin to listen counts as a notification.
    assert await wakeups.wait(DEADLINE_SECONDS)


async def test_a_row_in_the_outbox_wakes_at_commit(database: StoreDatabase) -> None:
    async with database.listen(outbox.CHANNEL) as wakeups:
        await listening(wakeups)
        async with database.begin() as conn:
            await outbox.add(conn, [ROW])
            assert not await wakeups.wait(0.05)
        assert await wakeups.wait(DEADLINE_SECONDS)
        assert not await wakeups.wait(0.05)


async def test_a_writer_may_wake_nobody(database: StoreDatabase) -> None:
    async with database.listen(outbox.CHANNEL) as wakeups:
        await listening(wakeups)
        async with database.begin() as conn:
            await outbox.add(conn, [ROW], notify=False)
        assert not await wakeups.wait(0.05)


async def test_a_listener_that_lost_its_connection_listens_again(database: StoreDatabase) -> None:
    async with database.listen(outbox.CHANNEL) as wakeups:
        await listening(wakeups)
        async with database.read() as conn:
            ended = await value(
                conn,
                """
                SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
                WHERE datname = current_database() AND query LIKE 'LISTEN %'
                """,
            )
        assert ended == 1
        await listening(wakeups)
        async with database.begin() as conn:
            await outbox.add(conn, [ROW])
        assert await wakeups.wait(DEADLINE_SECONDS)


async def test_without_a_database_it_only_times_out() -> None:
    database = Database("postgresql://nobody@127.0.0.1:1/nothing")
    async with database.listen("any") as wakeups:
        assert not await wakeups.wait(0.05)
        assert not wakeups.is_connected
    await database.dispose()


async def test_behind_a_pooler_nobody_listens(database_url: str) -> None:
    database = Database(database_url, pooler=True)
    async with database.listen("any") as wakeups:
        assert not await wakeups.wait(0.05)
        assert not wakeups.is_connected
    await database.dispose()
