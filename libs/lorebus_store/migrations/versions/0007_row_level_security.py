"""Row-level security: the second wall between organizations, and the roles that it holds.

Two rules hold for every table, those of later migrations too: row-level security is on and forced, so that not even
their owner reads past it; and no role has a right that no query of ours needs. A later migration that must touch rows
takes FORCE away first and puts it back, in the one transaction that it is.

The roles belong to the whole cluster, whose other databases may be migrated at the same moment.
"""

from collections.abc import Iterator
from typing import Final

from alembic import op

from lorebus_store.table_locks import lock_tables

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

APP: Final = "lorebus_app"
RELAY: Final = "lorebus_relay"
HOUSEKEEPING: Final = "lorebus_housekeeping"
REACH: Final = "lorebus_reach"
SYSTEM_ROLES: Final = (RELAY, HOUSEKEEPING)

# Whoever loses the race finds what it wanted to make.
MAKE_ROLE: Final = """
DO $$ BEGIN
    IF to_regrole('{role}') IS NULL THEN
        CREATE ROLE {role} NOLOGIN;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END $$
"""
# A member of the group may take such a role for a transaction, and has none of its rights before.
GRANT_ROLE: Final = """
DO $$ BEGIN
    FOR attempt IN 1..20 LOOP
        BEGIN
            IF NOT EXISTS (
                SELECT FROM pg_catalog.pg_auth_members
                WHERE roleid = to_regrole('{role}') AND member = to_regrole('{member}') AND set_option
            ) THEN
                GRANT {role} TO {member} WITH INHERIT FALSE, SET TRUE;
            END IF;
            EXIT;
        EXCEPTION WHEN unique_violation OR internal_error THEN
            -- Another migration changes the same row of the cluster's.
            PERFORM pg_catalog.pg_sleep(0.05);
        END;
    END LOOP;
END $$
"""

# What each table's queries need, by table; DELETE and UPDATE of whole tables only where a query of ours does it.
APP_RIGHTS: Final = {
    "organizations": "SELECT, INSERT, UPDATE",
    "api_keys": "SELECT, INSERT, UPDATE",
    "agent_configs": "SELECT, INSERT, UPDATE",
    "sessions": "SELECT, INSERT, UPDATE, DELETE",
    "memories": "SELECT, INSERT, UPDATE, DELETE",
    "memory_evidence": "SELECT, INSERT, DELETE",
    "model_usage": "SELECT, INSERT, UPDATE",
    "recalls": "SELECT, INSERT, UPDATE, DELETE",
    "recall_entries": "SELECT, INSERT, DELETE",
    "workflow_runs": "SELECT, INSERT, UPDATE",
    "processed_events": "SELECT, INSERT",
    "idempotency_keys": "SELECT, INSERT, UPDATE, DELETE",
    "rate_windows": "SELECT, INSERT, UPDATE",
    "erasures": "SELECT, INSERT",
    "outbox": "SELECT, INSERT, DELETE",
}
TABLES: Final = (*APP_RIGHTS, "outbox_leases")
SYSTEM_RIGHTS: Final = (
    ("outbox", RELAY, "SELECT, DELETE"),
    ("outbox_leases", RELAY, "SELECT, UPDATE"),
    ("outbox", HOUSEKEEPING, "SELECT (id, created_at)"),
    ("organizations", HOUSEKEEPING, "SELECT (organization_uuid, model_profile)"),
    (
        "agent_configs",
        HOUSEKEEPING,
        "SELECT (organization_uuid, agent_config_uuid, reach_pending, updated_at)",
    ),
    (
        "workflow_runs",
        HOUSEKEEPING,
        """SELECT (ctid, organization_uuid, id, type, state_name, agent_config_uuid, session_uuid, created_at,
            updated_at, finished_at, due_at, lease_token, lease_until, attempts),
        UPDATE (updated_at, due_at, lease_token, lease_until, attempts), DELETE""",
    ),
    ("processed_events", HOUSEKEEPING, "SELECT (ctid, processed_at), UPDATE (processed_at), DELETE"),
    ("idempotency_keys", HOUSEKEEPING, "SELECT (ctid, created_at), UPDATE (created_at), DELETE"),
    ("rate_windows", HOUSEKEEPING, "SELECT (ctid, ends_at), UPDATE (ends_at), DELETE"),
)

# Null or empty where nobody has said anything: then no row is anybody's.
FUNCTIONS: Final = """
CREATE FUNCTION lorebus.acts_for() RETURNS uuid[] LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CAST(string_to_array(current_setting('lorebus.organizations', true), ',') AS uuid[]);
COMMENT ON FUNCTION lorebus.acts_for() IS 'the organizations that this transaction acts for';
CREATE FUNCTION lorebus.shown_key_hash() RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE
    RETURN decode(nullif(current_setting('lorebus.key_hash', true), ''), 'hex');
COMMENT ON FUNCTION lorebus.shown_key_hash() IS 'the sha256 of the API key that was shown in this transaction'
"""
# The subselect is worked out once a statement, whatever the number of rows. Around it stands what no index takes and
# what the planner believes to be true of nearly every row: with the plain comparison it would take any index that
# begins with the organization for as good as the right one, and walk the whole organization.
IS_OURS: Final = (
    "nullif(organization_uuid = ANY (CAST((SELECT lorebus.acts_for()) AS uuid[])), false) IS NOT NULL"
)

# A search by words cannot use its index below a policy, because `@@` is not leakproof. This view has the same wall as
# an ordinary condition instead: it is read with the rights of its owner, whom a policy lets see every row but no text.
REACH_COLUMNS: Final = """organization_uuid, agent_config_uuid, principal_ref, id, fingerprint, text_chars, importance,
    created_at, terms, terms_vector, in_reach, state"""
REACH_VIEW: Final = f"""
CREATE VIEW lorebus.memories_in_reach AS
    SELECT {REACH_COLUMNS} FROM lorebus.memories WHERE {IS_OURS};
COMMENT ON VIEW lorebus.memories_in_reach IS 'candidates.pack_candidates, by words';
GRANT USAGE ON SCHEMA lorebus TO {REACH};
GRANT EXECUTE ON FUNCTION lorebus.acts_for() TO {REACH};
GRANT SELECT ({REACH_COLUMNS}) ON lorebus.memories TO {REACH};
CREATE POLICY of_the_view ON lorebus.memories FOR SELECT TO {REACH} USING (true);
GRANT CREATE ON SCHEMA lorebus TO {REACH};
ALTER VIEW lorebus.memories_in_reach OWNER TO {REACH};
REVOKE CREATE ON SCHEMA lorebus FROM {REACH};
GRANT SELECT ON lorebus.memories_in_reach TO {APP}
"""
# Whoever makes a role may give it to itself; a superuser need not.
BECOME_OWNER: Final = f"""
DO $$ BEGIN
    IF NOT pg_has_role('{REACH}', 'SET') THEN
        GRANT {REACH} TO CURRENT_USER WITH INHERIT FALSE, SET TRUE;
    END IF;
END $$
"""


def upgrade() -> None:
    """Make the roles, give each what it needs, and raise the wall before every table."""
    op.execute(lock_tables(TABLES))
    for role in (APP, REACH, *SYSTEM_ROLES):
        op.execute(MAKE_ROLE.format(role=role))
    for role in SYSTEM_ROLES:
        op.execute(GRANT_ROLE.format(role=role, member=APP))
    op.execute(BECOME_OWNER)
    for script in (FUNCTIONS, ";\n".join(_rights()), ";\n".join(_walls()), REACH_VIEW):
        for statement in script.split(";\n"):
            op.execute(statement)


def _rights() -> Iterator[str]:
    yield "REVOKE ALL ON FUNCTION lorebus.acts_for(), lorebus.shown_key_hash() FROM PUBLIC"
    yield f"GRANT EXECUTE ON FUNCTION lorebus.acts_for(), lorebus.shown_key_hash() TO {APP}"
    for role in (APP, *SYSTEM_ROLES):
        yield f"GRANT USAGE ON SCHEMA lorebus TO {role}"
    for table, rights in APP_RIGHTS.items():
        yield f"GRANT {rights} ON lorebus.{table} TO {APP}"
    yield f"GRANT SELECT ON lorebus.alembic_version TO {APP}"
    for table, role, rights in SYSTEM_RIGHTS:
        yield f"GRANT {rights} ON lorebus.{table} TO {role}"


def _walls() -> Iterator[str]:
    for table in TABLES:
        yield f"ALTER TABLE lorebus.{table} ENABLE ROW LEVEL SECURITY"
        yield f"ALTER TABLE lorebus.{table} FORCE ROW LEVEL SECURITY"
    for table in APP_RIGHTS:
        yield (
            f"CREATE POLICY of_organizations ON lorebus.{table} TO {APP} USING ({IS_OURS}) WITH CHECK ({IS_OURS})"
        )
    # Who shows a key is known by it alone: its organization is what is asked.
    yield (
        f"CREATE POLICY of_the_shown_key ON lorebus.api_keys FOR SELECT TO {APP}"
        " USING (key_hash = (SELECT lorebus.shown_key_hash()))"
    )
    # What such a role may do to a row, its rights to the columns say.
    for table, role, _ in SYSTEM_RIGHTS:
        yield f"CREATE POLICY of_{role.removeprefix('lorebus_')} ON lorebus.{table} TO {role} USING (true)"


def downgrade() -> None:
    """Services of the version before would find no organization's rows; the wall stays."""
    raise NotImplementedError("restore a backup instead: nothing takes the wall between organizations away")
