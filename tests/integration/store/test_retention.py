"""Deleting what has been kept for long enough."""

from datetime import timedelta
from uuid import UUID

from lorebus_store import idempotency, inbox, retention, runs
from lorebus_store.acting import SystemRole
from lorebus_store.retention import Swept
from tests.integration.store.builders import (
    ORGANIZATION,
    StoreDatabase,
    finished_run,
    initiated_run,
    plan,
    run_sql,
    value,
)

MONTH = timedelta(days=30)


async def sweep(database: StoreDatabase, chunk: int = 2) -> Swept:
    async with database.begin(SystemRole.HOUSEKEEPING) as conn:
        return await retention.sweep(
            conn,
            runs_older_than=MONTH,
            events_older_than=MONTH,
            idempotency_keys_older_than=timedelta(days=1),
            rate_windows_older_than=timedelta(hours=1),
            chunk=chunk,
        )


async def test_what_is_old_goes_bit_by_bit_and_the_rest_stays(database: StoreDatabase) -> None:
    async with database.owner() as conn:
        await runs.record_finished(conn, [finished_run(UUID(int=number)) for number in range(5)])
        await runs.insert_initiated(conn, initiated_run(UUID(int=5)))
        await inbox.claim_events(conn, "labels", [(ORGANIZATION, UUID(int=number)) for number in range(3)])
        for key in ("old", "new"):
            await idempotency.reserve(conn, organization_uuid=ORGANIZATION, route="r", key=key, body_hash=b"")
        await run_sql(
            conn,
            """
            UPDATE lorebus.workflow_runs
            SET finished_at = CASE WHEN id = :kept THEN now() ELSE now() - interval '31 days' END
            WHERE finished_at IS NOT NULL
            """,
            kept=UUID(int=4),
        )
        await run_sql(conn, "UPDATE lorebus.processed_events SET processed_at = now() - interval '31 days'")
        await run_sql(
            conn,
            "UPDATE lorebus.idempotency_keys SET created_at = now() - interval '25 hours' WHERE key = 'old'",
        )
        await run_sql(
            conn,
            """
            INSERT INTO lorebus.rate_windows (organization_uuid, credential, ends_at, taken, granted)
            SELECT :organization, sha256(CAST(hours AS text)::bytea), now() - hours * interval '1 hour', 1, 1
            FROM generate_series(0, 3) AS hours
            """,
            organization=ORGANIZATION,
        )
    assert await sweep(database) == Swept(runs=2, processed_events=2, idempotency_keys=1, rate_windows=2)
    assert await sweep(database) == Swept(runs=2, processed_events=1, idempotency_keys=0, rate_windows=1)
    assert (await sweep(database)).total == 0
    async with database.read() as conn:
        left = await value(conn, "SELECT array_agg(id ORDER BY id) FROM lorebus.workflow_runs")
    assert left == [UUID(int=4), UUID(int=5)]


async def test_a_sweep_walks_the_index_of_what_is_old(database: StoreDatabase) -> None:
    async with database.read(SystemRole.HOUSEKEEPING) as conn:
        plans = [
            await plan(conn, statement) for statement in (retention._RUNS, retention._EVENTS, retention._KEYS)
        ]
    assert ["workflow_runs_finished" in plans[0], "processed_events_processed" in plans[1]] == [True, True]
    assert "idempotency_keys_created" in plans[2]
