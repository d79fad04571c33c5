"""What organizations' models are asked, entries that are held back, and what stands behind an entry.

`memories_newest`, `memories_most_important` and `memories_terms` are made anew without quarantined entries, so that no
load can come upon one: a load names the state, and has these indexes for it alone.
"""

from typing import Final

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

USAGE: Final = """
CREATE TABLE lorebus.model_usage (
    organization_uuid uuid NOT NULL,
    day date NOT NULL,
    calls integer DEFAULT 0 NOT NULL,
    prompt_tokens bigint DEFAULT 0 NOT NULL,
    completion_tokens bigint DEFAULT 0 NOT NULL,
    CONSTRAINT model_usage_pkey PRIMARY KEY (organization_uuid, day)
) WITH (fillfactor = 50);
"""

# `echo_count` says how many of an entry's saves were of a lesson that its own session had recalled: less than
# `reinforcement_count + 1` of them unless everything about the entry is an echo.
QUARANTINE: Final = """
ALTER TABLE lorebus.memories
    ADD COLUMN state text DEFAULT 'active' NOT NULL,
    ADD COLUMN quarantine_reason text,
    ADD COLUMN echo_count integer DEFAULT 0 NOT NULL,
    ADD CONSTRAINT memories_state_is_known CHECK (state IN ('active', 'quarantined'));
DROP INDEX lorebus.memories_newest;
CREATE INDEX memories_newest ON lorebus.memories
    (organization_uuid, agent_config_uuid, principal_ref, created_at DESC, id DESC) WHERE state = 'active';
COMMENT ON INDEX lorebus.memories_newest IS 'memories.newest, memories.pack_candidates: one scope, newest first';
DROP INDEX lorebus.memories_most_important;
CREATE INDEX memories_most_important ON lorebus.memories
    (organization_uuid, agent_config_uuid, principal_ref, importance DESC, created_at DESC, id DESC)
    WHERE state = 'active';
COMMENT ON INDEX lorebus.memories_most_important IS
    'memories.most_important, memories.pack_candidates: one scope, most important first';
DROP INDEX lorebus.memories_terms;
CREATE INDEX memories_terms ON lorebus.memories USING gin
    (organization_uuid, agent_config_uuid, coalesce(principal_ref, ''), terms_vector)
    WHERE in_reach AND state = 'active';
COMMENT ON INDEX lorebus.memories_terms IS 'memories.pack_candidates, where memory_pack_reach is all';
DROP INDEX lorebus.memories_of_config;
CREATE INDEX memories_of_config ON lorebus.memories
    (organization_uuid, agent_config_uuid, importance DESC, created_at DESC, id DESC)
    WHERE state = 'active' AND importance >= 0;
COMMENT ON INDEX lorebus.memories_of_config IS
    'memories.list_page; backwards memories.prune_lowest and memories.would_prune';
CREATE INDEX memories_held ON lorebus.memories
    (organization_uuid, agent_config_uuid, importance DESC, created_at DESC, id DESC) WHERE state = 'quarantined';
COMMENT ON INDEX lorebus.memories_held IS 'memories.list_page, of what is held back';
"""

EVIDENCE: Final = """
CREATE TABLE lorebus.memory_evidence (
    organization_uuid uuid NOT NULL,
    memory_id uuid NOT NULL,
    event_id uuid NOT NULL,
    session_uuid uuid NOT NULL,
    kind text NOT NULL,
    at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT memory_evidence_pkey PRIMARY KEY (organization_uuid, memory_id, event_id),
    CONSTRAINT memory_evidence_kind_is_known CHECK (kind IN ('own', 'echo'))
);
"""


def upgrade() -> None:
    """Add the two tables and the columns."""
    for script in (USAGE, QUARANTINE, EVIDENCE):
        for statement in script.split(";\n"):
            if statement.strip():
                op.execute(statement)


def downgrade() -> None:
    """Entries that are held would come into loads."""
    raise NotImplementedError(
        "restore a backup instead: without these columns, held entries would be handed out"
    )
