"""The second wall: what the database itself lets a service see and write, whatever the query asks for."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import asyncpg
import pytest

from lorebus_store import keys
from lorebus_store.acting import NOBODY, KeyHolder, SystemRole, Tenants, narrow
from lorebus_store.database import Connection, Database
from lorebus_store.errors import PermanentError
from lorebus_store.logins import UnheldLoginError, ensure_login
from lorebus_store.statements import Statement, driver_of
from tests.integration.store.builders import (
    ORGANIZATION,
    OTHER_ORGANIZATION,
    StoreDatabase,
    run_sql,
    value,
)
from tests.support.databases import owner_of

OURS: Final = Tenants.of(ORGANIZATION)
DENIED: Final = "42501"
ROWS: Final[Mapping[str, Mapping[str, str]]] = {
    "organizations": {},
    "api_keys": {"id": "$id", "key_hash": "sha256($org)", "prefix": "'p'", "name": "'n'"},
    "agent_configs": {"agent_config_uuid": "$id"},
    "sessions": {"session_uuid": "$id", "agent_config_uuid": "$id"},
    "memories": {
        "id": "$id",
        "agent_config_uuid": "$id",
        "fingerprint_version": "1",
        "fingerprint": "sha256('x')",
        "text": "'secret'",
        "importance": "0.5",
        "terms": "'secret'",
        "terms_version": "1",
        "origin": "'runner'",
        "in_reach": "true",
    },
    "memory_evidence": {"memory_id": "$id", "event_id": "$id", "session_uuid": "$id", "kind": "'echo'"},
    "model_usage": {"day": "'2026-03-01'"},
    "recalls": {
        "recall_id": "$id",
        "session_uuid": "$id",
        "agent_config_uuid": "$id",
        "caller_kind": "'none'",
        "requested_strategy": "'pack'",
        "strategy": "'pack'",
        "cue": "'secret'",
        "top_k": "1",
        "budget_used_chars": "1",
        "entry_count": "1",
        "passed_over": "'[]'",
        "occurred_at": "now()",
    },
    "recall_entries": {"recall_id": "$id", "memory_id": "$id", "rank": "1", "importance": "0.5"},
    "workflow_runs": {
        "id": "$id",
        "type": "'memory-save'",
        "state_name": "'initiated'",
        "agent_config_uuid": "$id",
        "pending_input": "'secret'",
    },
    "processed_events": {"consumer": "'c'", "event_id": "$id"},
    "idempotency_keys": {"route": "'r'", "key": "'k'", "body_hash": "sha256('x')"},
    "rate_windows": {"credential": "sha256('x')", "ends_at": "now()", "taken": "0", "granted": "0"},
    "erasures": {
        "id": "$id",
        "subject_kind": "'session'",
        "subject_hash": "sha256('x')",
        "erased_at": "now()",
        "counts": "'{}'",
    },
    "outbox": {
        "shard": "1",
        "topic": "'t'",
        "key": "'k'",
        "payload": "'secret'",
        "event_id": "$id",
    },
}
"""A row of every table of tenants, without its organization."""

OF_THE_SYSTEM: Final = {"outbox_leases"}
"""Tables that are of no organization."""

HOUSEKEEPING_SEES: Final = {
    "agent_configs": {"organization_uuid", "agent_config_uuid", "reach_pending", "updated_at"},
    "idempotency_keys": {"created_at"},
    "organizations": {"organization_uuid", "model_profile"},
    "outbox": {"id", "created_at"},
    "processed_events": {"processed_at"},
    "rate_windows": {"ends_at"},
    "workflow_runs": {
        *("organization_uuid", "id", "type", "state_name", "agent_config_uuid", "session_uuid", "created_at"),
        *("updated_at", "finished_at", "due_at", "lease_token", "lease_until", "attempts", "traceparent"),
    },
}
RELAY_SEES: Final = {
    "outbox": {
        *("id", "organization_uuid", "shard", "topic", "key", "payload", "event_id", "created_at"),
        "traceparent",
    },
    "outbox_leases": {"shard", "token", "leased_until"},
}


def of(table: str, sql: str) -> str:
    """The statement about this table of our schema, and about our own or the other organization."""
    named = sql.replace("$own", str(ORGANIZATION)).replace("$other", str(OTHER_ORGANIZATION))
    return named.replace("$table", f"lorebus.{table}")


def insert(table: str, organization: UUID) -> str:
    """A row of the table for this organization; ids are its own."""
    columns = {"organization_uuid": "$org", **ROWS[table]}
    values = ", ".join(columns.values()).replace("sha256($org)", f"sha256('{organization}')")
    values = values.replace("$org", f"'{organization}'").replace("$id", f"'{organization}'")
    return (
        of(table, "INSERT INTO $table ($columns) VALUES ($values)")
        .replace("$columns", ", ".join(columns))
        .replace("$values", values)
    )


@pytest.fixture
async def full(database: StoreDatabase) -> StoreDatabase:
    """A database in which either organization has one row in every table."""
    async with database.owner() as conn:
        for table in ROWS:
            await run_sql(conn, of(table, "DELETE FROM $table"))
            await run_sql(conn, insert(table, ORGANIZATION))
            await run_sql(conn, insert(table, OTHER_ORGANIZATION))
    return database


@pytest.fixture
async def owner(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(owner_of(database_url))
    yield connection
    await connection.close()


async def refused(conn: Connection, sql: str) -> str | None:
    """The state with which the server refuses a statement; None when it does not."""
    driver = driver_of(conn)
    await driver.execute("SAVEPOINT tried")
    try:
        await driver.execute(sql)
    except asyncpg.PostgresError as error:
        state: str = error.sqlstate
        return state
    finally:
        await driver.execute("ROLLBACK TO tried")
    return None


async def test_every_table_has_the_wall_and_the_owner_is_before_it_too(owner: asyncpg.Connection) -> None:
    found = await owner.fetch(
        """
        SELECT relname, relrowsecurity, relforcerowsecurity FROM pg_class
        WHERE relnamespace = 'lorebus'::regnamespace AND relkind IN ('r', 'p') AND relname <> 'alembic_version'
        """
    )
    assert {row[0] for row in found} == {*ROWS, *OF_THE_SYSTEM}
    assert [row[0] for row in found if not (row[1] and row[2])] == []


async def test_whoever_acts_for_nobody_sees_and_changes_nothing(full: StoreDatabase) -> None:
    for table in ROWS:
        count = of(table, "SELECT count(*) FROM $table")
        async with full.begin(NOBODY) as conn:
            assert await value(conn, count) == 0, table
            assert await refused(conn, insert(table, UUID(int=1))) == DENIED, table
        async with full._engine.connect() as conn:
            # Not even a transaction was begun.
            assert await value(conn, count) == 0, table


async def test_whoever_acts_for_one_organization_sees_and_changes_no_row_of_another(
    full: StoreDatabase,
) -> None:
    for table in ROWS:
        async with full.begin(OURS) as conn:
            seen = await Statement(of(table, "SELECT organization_uuid FROM $table")).rows(conn)
            assert [row[0] for row in seen] == [ORGANIZATION], table
            assert await refused(conn, insert(table, OTHER_ORGANIZATION)) == DENIED, table
            # To give a row away is refused: by the wall, or because nobody may change one.
            given_away = of(
                table, "UPDATE $table SET organization_uuid = '$other' WHERE organization_uuid = '$own'"
            )
            assert await refused(conn, given_away) == DENIED, table


async def test_whoever_acts_for_one_organization_changes_no_row_of_another_whatever_it_asks_for(
    full: StoreDatabase,
) -> None:
    changed = set()
    for table in ROWS:
        for change in ("UPDATE $table SET organization_uuid = organization_uuid", "DELETE FROM $table"):
            async with full.begin(OURS) as conn:
                if await refused(conn, of(table, change)) is None:
                    foreign = f"{change} WHERE organization_uuid = '$other'"
                    assert await Statement(of(table, foreign)).run(conn) == 0, table
                    assert await Statement(of(table, change)).run(conn) == 1, table
                    changed.add(table)
    async with full.owner() as conn:
        left = "SELECT count(*) FROM $table WHERE organization_uuid = '$other'"
        assert [table for table in ROWS if await value(conn, of(table, left)) != 1] == []
    assert changed == set(ROWS) - {"processed_events", "erasures"}


async def test_a_batch_sees_the_rows_of_all_its_organizations(full: StoreDatabase) -> None:
    async with full.read(Tenants.of(ORGANIZATION, OTHER_ORGANIZATION)) as conn:
        counts = [await value(conn, of(table, "SELECT count(*) FROM $table")) for table in ROWS]
    assert counts == [2] * len(ROWS)


async def test_the_search_by_words_has_the_same_wall(full: StoreDatabase) -> None:
    query = Statement("SELECT organization_uuid FROM lorebus.memories_in_reach")
    async with full.read(OURS) as conn:
        ours = await query.rows(conn)
        assert await refused(conn, "SELECT text FROM lorebus.memories_in_reach") == "42703"
    async with full.read(NOBODY) as conn:
        assert await query.rows(conn) == []
    assert [row[0] for row in ours] == [ORGANIZATION]


async def test_a_key_that_is_shown_shows_its_own_row_alone(full: StoreDatabase) -> None:
    hashed = await _hash_of(full, OTHER_ORGANIZATION)
    async with full.read(KeyHolder(hashed)) as conn:
        found = await keys.find_key(conn, hashed)
        assert await value(conn, "SELECT count(*) FROM lorebus.api_keys") == 1
        others = [
            await value(conn, of(table, "SELECT count(*) FROM $table"))
            for table in ROWS
            if table != "api_keys"
        ]
    assert found is not None
    assert found.organization_uuid == OTHER_ORGANIZATION
    assert set(others) == {0}


async def _hash_of(database: StoreDatabase, organization: UUID) -> bytes:
    async with database.owner() as conn:
        hashed: bytes = await value(
            conn,
            "SELECT key_hash FROM lorebus.api_keys WHERE organization_uuid = :organization",
            organization=organization,
        )
    return hashed


@pytest.mark.parametrize(
    ("role", "sees"), [(SystemRole.HOUSEKEEPING, HOUSEKEEPING_SEES), (SystemRole.RELAY, RELAY_SEES)]
)
async def test_the_systems_own_work_sees_exactly_what_it_needs(
    owner: asyncpg.Connection, role: SystemRole, sees: Mapping[str, set[str]]
) -> None:
    rows = await owner.fetch(
        """
        SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = 'lorebus'::regnamespace AND c.relkind IN ('r', 'v') AND a.attnum > 0
            AND NOT a.attisdropped AND has_column_privilege($1, c.oid, a.attnum, 'SELECT')
        """,
        role.value,
    )
    found: dict[str, set[str]] = {}
    for table, column in rows:
        found.setdefault(table, set()).add(column)
    assert found == sees


async def test_the_systems_own_work_ends_with_its_transaction_and_may_become_tenants_only(
    full: StoreDatabase,
) -> None:
    async with full.begin(SystemRole.HOUSEKEEPING) as conn:
        assert await value(conn, "SELECT count(id) FROM lorebus.workflow_runs") == 2
        assert await refused(conn, "SELECT pending_input FROM lorebus.workflow_runs") == DENIED
        await narrow(conn, OURS)
        assert await value(conn, "SELECT array_agg(pending_input) FROM lorebus.workflow_runs") == [b"secret"]
    async with full.begin(OURS) as conn:
        assert await value(conn, "SELECT current_user = session_user")


async def test_no_role_of_ours_has_more_rights_than_queries_need(owner: asyncpg.Connection) -> None:
    roles = ["lorebus_app", "lorebus_reach", *SystemRole]
    powers = await owner.fetch(
        """
        SELECT rolname FROM pg_roles WHERE rolname = ANY($1)
            AND (rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolcanlogin OR rolreplication)
        """,
        roles,
    )
    too_much = await owner.fetch(
        """
        SELECT r.rolname, c.relname FROM pg_class c, pg_roles r
        WHERE c.relnamespace = 'lorebus'::regnamespace AND c.relkind = 'r' AND r.rolname = ANY($1) AND (
            has_table_privilege(r.oid, c.oid, 'TRUNCATE, REFERENCES, TRIGGER, MAINTAIN')
            OR pg_has_role(r.oid, c.relowner, 'USAGE')
        )
        """,
        roles,
    )
    may_create = await owner.fetch(
        "SELECT rolname FROM pg_roles WHERE rolname = ANY($1) AND has_schema_privilege(oid, 'lorebus', 'CREATE')",
        roles,
    )
    assert (powers, too_much, may_create) == ([], [], [])


async def test_a_service_has_no_right_of_the_systems_own_work_before_it_takes_it(full: StoreDatabase) -> None:
    async with full.begin(OURS) as conn:
        assert await refused(conn, "SELECT FROM lorebus.outbox_leases") == DENIED
        assert await refused(conn, "DELETE FROM lorebus.workflow_runs") == DENIED
        assert await refused(conn, "TRUNCATE lorebus.memories") == DENIED
        assert await refused(conn, "ALTER TABLE lorebus.memories DISABLE ROW LEVEL SECURITY") == DENIED


async def test_a_foreign_row_is_a_fault_of_what_was_asked_and_not_of_the_database(
    database: StoreDatabase,
) -> None:
    with pytest.raises(PermanentError, match="row-level security"):
        async with database.begin(OURS) as conn:
            await run_sql(conn, insert("memories", OTHER_ORGANIZATION))


@pytest.mark.parametrize(
    ("made", "because"),
    [
        ("SUPERUSER", "is a superuser"),
        ("BYPASSRLS", "has BYPASSRLS"),
        ("IN ROLE {owner}", "owns the tables"),
        ("", "is no member of lorebus_app"),
    ],
)
async def test_a_login_that_the_wall_does_not_hold_is_refused(
    database_url: str, owner: asyncpg.Connection, made: str, because: str
) -> None:
    name = f"unheld_{uuid4().hex}"
    await owner.execute(f"CREATE ROLE {name}_owner")
    await owner.execute(f"ALTER TABLE lorebus.erasures OWNER TO {name}_owner")
    await owner.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x' {made.format(owner=name + '_owner')}")
    database = Database(_as(database_url, name), pool_size=1)
    try:
        with pytest.raises(UnheldLoginError, match=because):
            await database.ping()
        with pytest.raises(UnheldLoginError, match=because):
            async with database.begin(OURS):
                pytest.fail("there is no transaction")
        assert database.pool_status().idle == 0
    finally:
        await database.dispose()
        await owner.execute(f"REASSIGN OWNED BY {name}_owner TO CURRENT_USER")
        await owner.execute(f"DROP ROLE {name}; DROP ROLE {name}_owner")


def _as(url: str, name: str) -> str:
    address = urlsplit(url)
    return address._replace(netloc=f"{name}:x@{address.netloc.rpartition('@')[2]}").geturl()


async def test_services_need_a_login_of_their_own(owner: asyncpg.Connection, database_url: str) -> None:
    with pytest.raises(ValueError, match="login of their own"):
        await ensure_login(owner_of(database_url), owner_of(database_url))
    # The one that is there gets its password again.
    await ensure_login(owner_of(database_url), database_url)
    member: Any = await owner.fetchval("SELECT pg_has_role('lorebus_test_service', 'lorebus_app', 'USAGE')")
    assert member is True
