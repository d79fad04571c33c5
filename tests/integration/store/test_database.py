"""Connections: their timeouts, their errors, and what becomes of them when the server is away."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext
from urllib.parse import urlsplit

import asyncpg
import pytest

from lorebus_domain.visibility import MemoryScope, NoCaller, Scope
from lorebus_store import memories
from lorebus_store.database import Database, async_url
from lorebus_store.errors import PermanentError, TransientError
from lorebus_store.statements import Statement
from tests.integration.store.builders import (
    BOTH,
    CONFIG,
    DEADLINE_SECONDS,
    ORGANIZATION,
    OTHER_ORGANIZATION,
    SlowWire,
    StoreDatabase,
    backend_id,
    eventually,
    folded,
    run_sql,
    save,
    value,
)
from tests.support.databases import database_away


@pytest.fixture
async def wire(database_url: str) -> AsyncIterator[SlowWire]:
    address = urlsplit(database_url)
    async with SlowWire(address.hostname or "127.0.0.1", address.port or 5432).open() as wire:
        yield wire


@pytest.fixture
async def hasty(database_url: str, wire: SlowWire) -> AsyncIterator[Database]:
    """A database behind the wire that is given up after half a second."""
    database = Database(_behind(wire, database_url), command_timeout_seconds=0.5, connect_timeout_seconds=0.5)
    try:
        await database.ping()
        yield database
    finally:
        wire.let_flow()
        await database.dispose()


async def test_a_block_that_raises_keeps_nothing(database: StoreDatabase) -> None:
    async def fail_after_writing() -> None:
        async with database.begin() as conn:
            await run_sql(conn, "UPDATE lorebus.organizations SET model_profile = 'changed'")
            raise LookupError("not about the database")

    with pytest.raises(LookupError, match="not about the database"):
        await fail_after_writing()
    async with database.read() as conn:
        assert await value(conn, "SELECT model_profile FROM lorebus.organizations") is None


async def test_every_connection_has_its_timeouts(database: StoreDatabase) -> None:
    async with database.read() as conn:
        shown = [
            await value(conn, f"SELECT current_setting('{name}')")
            for name in (
                "statement_timeout",
                "lock_timeout",
                "idle_in_transaction_session_timeout",
                "jit",
                "plan_cache_mode",
                "enable_seqscan",
                "application_name",
            )
        ]
    assert shown == ["20s", "3s", "15s", "off", "force_generic_plan", "off", "lorebus-tests"]


async def test_behind_a_pooler_timeouts_and_whom_one_acts_for_end_with_the_transaction(
    database: StoreDatabase,
) -> None:
    pooled = Database(database.url, pooler=True, pool_size=1)
    timeout = "SELECT current_setting('statement_timeout')"
    async with pooled.begin(BOTH) as conn:
        assert await value(conn, timeout) == "20s"
        assert await value(conn, "SELECT current_setting('lock_timeout')") == "3s"
    async with pooled.read(BOTH) as conn:
        assert await value(conn, timeout) == "20s"
        driver = (await conn.get_raw_connection()).driver_connection
        assert driver is not None
        prepared = await driver.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE name <> ''")
        assert await value(conn, "SELECT count(*) FROM lorebus.organizations") == 1
    assert prepared == 0
    async with pooled._engine.connect() as conn:
        assert await value(conn, timeout) == "0"
        assert await value(conn, "SELECT count(*) FROM lorebus.organizations") == 0
    await pooled.dispose()


async def test_a_statement_that_takes_too_long_is_transient(database: StoreDatabase) -> None:
    async def sleep() -> None:
        async with database.begin() as conn:
            await value(conn, "SELECT set_config('statement_timeout', '20ms', true)")
            await value(conn, "SELECT pg_sleep(600)")

    with pytest.raises(TransientError, match="statement timeout"):
        await sleep()
    await database.ping()


@pytest.mark.parametrize("change", [{"path": "/nobody_made_this"}, {"netloc": "nobody"}, {}])
async def test_a_database_that_lets_nobody_in_is_transient(database_url: str, change: dict[str, str]) -> None:
    parts = urlsplit(database_url)
    if "netloc" in change:
        change = {"netloc": f"nobody:wrong@{parts.netloc.rpartition('@')[2]}"}
    shut = Database(parts._replace(**change).geturl(), pool_size=1)
    closed = nullcontext() if change else database_away(database_url)
    async with closed:
        with pytest.raises(TransientError):
            await shut.ping()
    await shut.dispose()


async def test_a_lock_that_is_not_had_in_time_is_transient(database: StoreDatabase) -> None:
    async def touch() -> None:
        async with database.begin() as conn:
            await value(conn, "SELECT set_config('lock_timeout', '20ms', true)")
            await run_sql(conn, "UPDATE lorebus.organizations SET updated_at = now()")

    async with database.begin() as first:
        await run_sql(first, "UPDATE lorebus.organizations SET updated_at = now()")
        with pytest.raises(TransientError, match="LockNotAvailable"):
            await touch()


async def test_a_deadlock_is_transient(database: StoreDatabase) -> None:
    lock = Statement("SELECT pg_advisory_xact_lock(CAST(:key AS bigint))")
    both_hold_one = asyncio.Barrier(2)

    async def lock_both(first: int, second: int) -> None:
        async with database.begin() as conn:
            await lock.rows(conn, {"key": first})
            await both_hold_one.wait()
            await lock.rows(conn, {"key": second})

    outcomes = await asyncio.gather(lock_both(1, 2), lock_both(2, 1), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", "TransientError"]


async def test_a_refused_value_is_permanent_and_names_its_constraint(database: StoreDatabase) -> None:
    with pytest.raises(PermanentError) as refused:
        async with database.begin() as conn:
            await run_sql(conn, "UPDATE lorebus.agent_configs SET memory_top_k = 1001")
    assert (refused.value.sqlstate, refused.value.constraint) == ("23514", "agent_configs_top_k_in_range")
    assert refused.value.__cause__ is not None


async def test_an_error_never_repeats_a_value(database: StoreDatabase) -> None:
    for wrong in ("a secret text", ["a secret text"], {"a secret text"}):
        with pytest.raises(PermanentError) as refused:
            async with database.begin() as conn:
                await value(conn, "SELECT CAST(:number AS integer)", number=wrong)
        assert "secret" not in str(refused.value)


async def test_a_session_that_an_operator_ends_is_transient_and_the_next_one_works(
    database: StoreDatabase,
) -> None:
    async def be_ended() -> None:
        async with database.begin() as victim, database.read() as conn:
            pid = await backend_id(victim)
            await value(conn, "SELECT pg_terminate_backend(CAST(:pid AS integer), 10000)", pid=pid)
            await value(victim, "SELECT 1")

    with pytest.raises(TransientError):
        await be_ended()
    await database.ping()


@pytest.mark.parametrize("how", ["begin", "read"])
async def test_a_connection_that_breaks_between_two_steps_of_the_driver_is_transient_and_not_used_again(
    database: StoreDatabase, how: str
) -> None:
    pids = []

    async def breaks() -> None:
        async with getattr(database, how)(BOTH) as conn:
            pids.append(await backend_id(conn))
            raise asyncpg.InternalClientError(
                "cannot switch to state 11; another operation (2) is in progress"
            )

    with pytest.raises(TransientError):
        await breaks()
    async with database.begin() as conn:
        assert await backend_id(conn) not in pids


async def test_connections_that_died_in_the_pool_are_replaced_unnoticed(database: StoreDatabase) -> None:
    async with database.begin() as first, database.begin() as second:
        pids = [await backend_id(first), await backend_id(second)]
    async with database.begin() as conn:
        own = await backend_id(conn)
        for pid in set(pids) - {own}:
            await value(conn, "SELECT pg_terminate_backend(CAST(:pid AS integer), 10000)", pid=pid)
    for _ in range(3):
        async with database.begin() as one, database.begin() as two:
            assert len({await backend_id(one), await backend_id(two)}) == 2


async def test_a_caller_that_gets_no_connection_in_time_hears_of_it(database_url: str) -> None:
    database = Database(database_url, pool_size=1, pool_timeout_seconds=0.05)
    async with database.read(BOTH):
        with pytest.raises(TransientError):
            await database.ping()
        assert database.pool_status().in_use == 1
    assert (database.pool_status().size, database.pool_status().in_use) == (1, 0)
    await database.dispose()


async def test_a_server_that_is_not_there_is_transient() -> None:
    database = Database("postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(TransientError):
        await database.ping()
    with pytest.raises(TransientError):
        async with database.begin(BOTH):
            pytest.fail("there is no transaction")
    await database.dispose()


async def test_a_server_that_hangs_is_given_up(hasty: Database, wire: SlowWire) -> None:
    async def hang_in_a_statement() -> None:
        async with hasty.begin(BOTH) as conn:
            wire.hold()
            await value(conn, "SELECT 1")

    async def hang_in_the_commit() -> None:
        async with hasty.begin(BOTH):
            wire.hold()

    async with asyncio.timeout(DEADLINE_SECONDS):
        with pytest.raises(TransientError):
            await hang_in_a_statement()
        wire.let_flow()
        with pytest.raises(TransientError):
            await hang_in_the_commit()
        with pytest.raises(TransientError):
            await hasty.ping()
        wire.let_flow()
        await hasty.ping()
    assert hasty.pool_status().in_use == 0


async def test_a_caller_that_stops_waiting_leaves_no_connection_behind(
    hasty: Database, wire: SlowWire
) -> None:
    async def hang() -> None:
        async with hasty.begin(BOTH) as conn:
            wire.hold()
            await value(conn, "SELECT 1")

    async with asyncio.timeout(DEADLINE_SECONDS):
        caller = asyncio.create_task(hang())
        await eventually(lambda: _is_true(hasty.pool_status().in_use == 1))
        caller.cancel()
        with pytest.raises((asyncio.CancelledError, TransientError)):
            await caller
        wire.let_flow()
        await hasty.ping()
    assert hasty.pool_status().in_use == 0


async def test_who_gives_up_a_server_that_hangs_does_not_wait_for_it_to_roll_back(
    database_url: str, wire: SlowWire
) -> None:
    patient = Database(_behind(wire, database_url))
    await patient.ping()
    wire.hold()
    async with asyncio.timeout(DEADLINE_SECONDS):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await patient.ping()
    wire.let_flow()
    await patient.ping()
    await patient.dispose()


def _behind(wire: SlowWire, database_url: str) -> str:
    """The database's address with the wire in between."""
    address = urlsplit(database_url)
    user = address.netloc.rpartition("@")[0]
    return address._replace(netloc=f"{user}@127.0.0.1:{wire.port}").geturl()


async def _is_true(holds: bool) -> bool:  # noqa: FBT001  # A condition in the form that `eventually` takes.
    return holds


async def test_the_answer_to_a_commit_that_is_lost_is_transient_though_all_was_kept(
    hasty: Database, wire: SlowWire, database: StoreDatabase
) -> None:
    async def lose_the_answer() -> None:
        async with hasty.begin(BOTH) as conn:
            await run_sql(conn, "UPDATE lorebus.organizations SET model_profile = 'kept'")
            wire.hold_answers()

    with pytest.raises(TransientError):
        await lose_the_answer()

    async def is_kept() -> bool:
        async with database.read() as conn:
            return bool(await value(conn, "SELECT model_profile = 'kept' FROM lorebus.organizations"))

    await eventually(is_kept)


@pytest.mark.parametrize("driver", ["postgresql", "postgresql+asyncpg", "postgres"])
def test_an_address_needs_no_driver(driver: str) -> None:
    parsed = async_url(f"{driver}://user:p%40ss@host:5433/name?sslmode=require")
    assert parsed.render_as_string(hide_password=False) == (
        "postgresql+asyncpg://user:p%40ss@host:5433/name?ssl=require"
    )


def test_another_kind_of_database_is_refused() -> None:
    with pytest.raises(ValueError, match="the database is a PostgreSQL"):
        async_url("sqlite:///file")


async def test_a_glance_sees_what_its_statement_acts_for_and_nothing_else(
    database: StoreDatabase, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        await save(conn, folded(shared, "Use UTC"))
    here = Scope(ORGANIZATION, CONFIG, NoCaller())
    elsewhere = Scope(OTHER_ORGANIZATION, CONFIG, NoCaller())

    async with database.glance() as conn:
        assert [entry.text for entry in (await memories.newest(conn, here, 10)).entries] == ["Use UTC"]
        assert (await memories.newest(conn, elsewhere, 10)).entries == ()
        # What was said was said for one statement.
        assert await value(conn, "SELECT count(*) FROM lorebus.memories") == 0
        assert await value(conn, "SELECT current_setting('lorebus.organizations', true)") in {None, ""}


async def test_behind_a_pooler_a_glance_is_one_transaction(
    database: StoreDatabase, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        await save(conn, folded(shared, "Use UTC"))
    pooled = Database(database.url, pool_size=1, pooler=True)
    try:
        async with pooled.glance() as conn:
            begun = await value(conn, "SELECT now()")
            scope = Scope(ORGANIZATION, CONFIG, NoCaller())
            assert [entry.text for entry in (await memories.newest(conn, scope, 10)).entries] == ["Use UTC"]
            assert await value(conn, "SELECT now()") == begun
    finally:
        await pooled.dispose()


async def test_a_glance_that_is_given_up_leaves_no_connection_behind(hasty: Database, wire: SlowWire) -> None:
    async def look() -> None:
        async with hasty.glance() as conn:
            await memories.newest(conn, Scope(ORGANIZATION, CONFIG, NoCaller()), 10)

    await look()
    wire.hold()
    looking = asyncio.create_task(look())
    async with asyncio.timeout(DEADLINE_SECONDS):
        while hasty.pool_status().in_use == 0:  # noqa: ASYNC110  # A pool sets no event of ours.
            await asyncio.sleep(0.01)
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking

    wire.let_flow()
    await look()
    assert hasty.pool_status().in_use == 0
