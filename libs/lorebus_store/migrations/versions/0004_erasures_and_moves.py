"""What was erased, what receipts tell of entries that are gone, and what came with an import.

The indexes by principal are partial, as most erasures are of a person; most rows of many products are of nobody.
"""

from typing import Final

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

ERASURES: Final = """
CREATE TABLE lorebus.erasures (
    organization_uuid uuid NOT NULL,
    id uuid NOT NULL,
    subject_kind text NOT NULL,
    subject_hash bytea NOT NULL,
    agent_config_uuid uuid,
    erased_at timestamptz NOT NULL,
    counts jsonb NOT NULL,
    CONSTRAINT erasures_pkey PRIMARY KEY (organization_uuid, id),
    CONSTRAINT erasures_subject_kind_is_known CHECK (subject_kind IN ('principal', 'session')),
    CONSTRAINT erasures_subject_hash_is_sha256 CHECK (octet_length(subject_hash) = 32)
);
CREATE INDEX erasures_subject ON lorebus.erasures (organization_uuid, subject_hash);
COMMENT ON INDEX lorebus.erasures_subject IS 'erasures.markers';
CREATE INDEX sessions_principal ON lorebus.sessions (organization_uuid, principal_ref)
    WHERE principal_ref IS NOT NULL;
COMMENT ON INDEX lorebus.sessions_principal IS 'erasing.erase, of a principal';
CREATE INDEX recalls_principal ON lorebus.recalls (organization_uuid, principal_ref)
    WHERE principal_ref IS NOT NULL;
COMMENT ON INDEX lorebus.recalls_principal IS 'erasing.erase, of a principal';
ALTER TABLE lorebus.recalls ADD COLUMN gone_entries jsonb DEFAULT '[]' NOT NULL;
"""

# How many recalls of an imported entry were labelled where it came from.
MOVES: Final = """
ALTER TABLE lorebus.memories
    ADD COLUMN moved_success_count bigint DEFAULT 0 NOT NULL,
    ADD COLUMN moved_failed_count bigint DEFAULT 0 NOT NULL;
"""


def upgrade() -> None:
    """Add the table, the indexes and the columns."""
    for script in (ERASURES, MOVES):
        for statement in script.split(";\n"):
            if statement.strip():
                op.execute(statement)


def downgrade() -> None:
    """What was erased would come back with the next late event."""
    raise NotImplementedError(
        "restore a backup instead: without this table, late events bring erased entries back"
    )
