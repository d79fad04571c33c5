"""The first tables.

Two rules hold for all of them: `organization_uuid` leads every primary key of a tenant's table, because it is the
distribution column when one PostgreSQL is not enough; and there are no foreign keys, because events come in any order
and a reference would be a lock on a hot row.
"""

from typing import Final

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SHARDS: Final = 16

SETTINGS: Final = """
CREATE TABLE lorebus.organizations (
    organization_uuid uuid NOT NULL,
    memory_enabled boolean DEFAULT true NOT NULL,
    model_profile text,
    created_at timestamptz DEFAULT now() NOT NULL,
    updated_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT organizations_pkey PRIMARY KEY (organization_uuid)
);

CREATE TABLE lorebus.api_keys (
    organization_uuid uuid NOT NULL,
    id uuid NOT NULL,
    key_hash bytea NOT NULL,
    prefix text NOT NULL,
    name text NOT NULL,
    scopes text[] DEFAULT '{read,write,admin}' NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    last_used_at timestamptz,
    revoked_at timestamptz,
    CONSTRAINT api_keys_pkey PRIMARY KEY (organization_uuid, id),
    CONSTRAINT api_keys_key_hash_key UNIQUE (key_hash),
    CONSTRAINT api_keys_key_hash_is_sha256 CHECK (octet_length(key_hash) = 32)
);
COMMENT ON INDEX lorebus.api_keys_key_hash_key IS 'keys.find_key';

CREATE TABLE lorebus.agent_configs (
    organization_uuid uuid NOT NULL,
    agent_config_uuid uuid NOT NULL,
    memory_enabled boolean DEFAULT true NOT NULL,
    memory_write_enabled boolean DEFAULT true NOT NULL,
    memory_strategy text DEFAULT 'last_k' NOT NULL,
    memory_top_k integer DEFAULT 10 NOT NULL,
    memory_max_entries integer DEFAULT 10000 NOT NULL,
    memory_pack_reach text DEFAULT 'recent' NOT NULL,
    entry_count bigint DEFAULT 0 NOT NULL,
    reach_pending boolean DEFAULT false NOT NULL,
    reach_cursor uuid,
    created_at timestamptz DEFAULT now() NOT NULL,
    updated_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT agent_configs_pkey PRIMARY KEY (organization_uuid, agent_config_uuid),
    CONSTRAINT agent_configs_strategy_is_known
        CHECK (memory_strategy IN ('last_k', 'importance', 'full', 'pack', 'semantic')),
    CONSTRAINT agent_configs_pack_reach_is_known CHECK (memory_pack_reach IN ('recent', 'all')),
    CONSTRAINT agent_configs_top_k_in_range CHECK (memory_top_k BETWEEN 1 AND 1000),
    CONSTRAINT agent_configs_max_entries_in_range CHECK (memory_max_entries >= 0),
    CONSTRAINT agent_configs_entry_count_in_range CHECK (entry_count >= 0)
) WITH (fillfactor = 50);
CREATE INDEX agent_configs_reach_pending ON lorebus.agent_configs (updated_at) WHERE reach_pending;
COMMENT ON INDEX lorebus.agent_configs_reach_pending IS 'reach.extend';
"""

SESSIONS: Final = """
CREATE TABLE lorebus.sessions (
    organization_uuid uuid NOT NULL,
    session_uuid uuid NOT NULL,
    agent_config_uuid uuid NOT NULL,
    caller_kind text,
    principal_ref text COLLATE "C",
    task text,
    registered_at timestamptz,
    created_at timestamptz DEFAULT now() NOT NULL,
    outcome text,
    ended_at timestamptz,
    ended_event_id uuid,
    quality_score double precision,
    rated_at timestamptz,
    rated_event_id uuid,
    CONSTRAINT sessions_pkey PRIMARY KEY (organization_uuid, session_uuid),
    CONSTRAINT sessions_caller_kind_is_known CHECK (caller_kind IN ('none', 'end_user', 'actor')),
    CONSTRAINT sessions_quality_score_in_range CHECK (quality_score BETWEEN 0 AND 1)
);
"""

# `in_reach` says that the config's packs reach all of its entries (memory_pack_reach). The full-text index halves the
# saves a second, so only such entries are in it. The condition of `memories_of_config` always holds: a load of one
# scope does not name it, and so is never planned on this index, which knows nothing of scopes.
MEMORIES: Final = """
CREATE TABLE lorebus.memories (
    organization_uuid uuid NOT NULL,
    id uuid NOT NULL,
    agent_config_uuid uuid NOT NULL,
    principal_ref text COLLATE "C",
    fingerprint_version smallint NOT NULL,
    fingerprint bytea NOT NULL,
    text text NOT NULL,
    text_chars integer GENERATED ALWAYS AS (char_length(text)) STORED,
    importance double precision NOT NULL,
    reinforcement_count integer DEFAULT 0 NOT NULL,
    access_count bigint DEFAULT 0 NOT NULL,
    terms text NOT NULL,
    terms_version smallint NOT NULL,
    in_reach boolean DEFAULT false NOT NULL,
    terms_vector tsvector GENERATED ALWAYS AS
        (CASE WHEN in_reach THEN array_to_tsvector(string_to_array(terms, ' ')) END) STORED,
    origin text NOT NULL,
    session_uuid uuid,
    provenance jsonb,
    created_at timestamptz DEFAULT now() NOT NULL,
    updated_at timestamptz DEFAULT now() NOT NULL,
    last_accessed_at timestamptz,
    CONSTRAINT memories_pkey PRIMARY KEY (organization_uuid, id),
    CONSTRAINT memories_identity UNIQUE NULLS NOT DISTINCT
        (organization_uuid, agent_config_uuid, principal_ref, fingerprint_version, fingerprint),
    CONSTRAINT memories_principal_is_named CHECK (principal_ref <> ''),
    CONSTRAINT memories_fingerprint_is_sha256 CHECK (octet_length(fingerprint) = 32),
    CONSTRAINT memories_importance_in_range CHECK (importance BETWEEN 0 AND 1)
) WITH (fillfactor = 90);
COMMENT ON INDEX lorebus.memories_identity IS 'memories.upsert_reinforcing';
CREATE INDEX memories_newest ON lorebus.memories
    (organization_uuid, agent_config_uuid, principal_ref, created_at DESC, id DESC);
COMMENT ON INDEX lorebus.memories_newest IS 'memories.newest, memories.pack_candidates: one scope, newest first';
CREATE INDEX memories_most_important ON lorebus.memories
    (organization_uuid, agent_config_uuid, principal_ref, importance DESC, created_at DESC, id DESC);
COMMENT ON INDEX lorebus.memories_most_important IS
    'memories.most_important, memories.pack_candidates: one scope, most important first';
CREATE INDEX memories_of_config ON lorebus.memories
    (organization_uuid, agent_config_uuid, importance DESC, created_at DESC, id DESC) WHERE importance >= 0;
COMMENT ON INDEX lorebus.memories_of_config IS
    'memories.list_page; backwards memories.prune_lowest and memories.would_prune';
CREATE INDEX memories_terms ON lorebus.memories USING gin
    (organization_uuid, agent_config_uuid, coalesce(principal_ref, ''), terms_vector) WHERE in_reach;
COMMENT ON INDEX lorebus.memories_terms IS 'memories.pack_candidates, where memory_pack_reach is all';
"""

RECALLS: Final = """
CREATE TABLE lorebus.recalls (
    organization_uuid uuid NOT NULL,
    recall_id uuid NOT NULL,
    pack_id uuid,
    session_uuid uuid NOT NULL,
    agent_config_uuid uuid NOT NULL,
    caller_kind text NOT NULL,
    principal_ref text COLLATE "C",
    requested_strategy text NOT NULL,
    strategy text NOT NULL,
    cue text NOT NULL,
    top_k integer NOT NULL,
    budget_used_chars integer NOT NULL,
    entry_count integer NOT NULL,
    passed_over jsonb NOT NULL,
    occurred_at timestamptz NOT NULL,
    recorded_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT recalls_pkey PRIMARY KEY (organization_uuid, recall_id)
);
CREATE INDEX recalls_pack ON lorebus.recalls (organization_uuid, pack_id) WHERE pack_id IS NOT NULL;
COMMENT ON INDEX lorebus.recalls_pack IS 'recalls.receipt, by pack id';
CREATE INDEX recalls_session ON lorebus.recalls (organization_uuid, session_uuid);
COMMENT ON INDEX lorebus.recalls_session IS 'recalls.of_session';

CREATE TABLE lorebus.recall_entries (
    organization_uuid uuid NOT NULL,
    recall_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    rank integer NOT NULL,
    score double precision,
    relevance double precision,
    importance double precision NOT NULL,
    recency double precision,
    CONSTRAINT recall_entries_pkey PRIMARY KEY (organization_uuid, recall_id, memory_id)
);
CREATE INDEX recall_entries_memory ON lorebus.recall_entries (organization_uuid, memory_id);
COMMENT ON INDEX lorebus.recall_entries_memory IS 'recalls.of_memory';
"""

WORK: Final = """
CREATE TABLE lorebus.workflow_runs (
    organization_uuid uuid NOT NULL,
    id uuid NOT NULL,
    type text NOT NULL,
    state_name text NOT NULL,
    state_data jsonb DEFAULT '{}' NOT NULL,
    history jsonb DEFAULT '[]' NOT NULL,
    pending_input bytea,
    agent_config_uuid uuid NOT NULL,
    session_uuid uuid,
    created_at timestamptz DEFAULT now() NOT NULL,
    updated_at timestamptz DEFAULT now() NOT NULL,
    finished_at timestamptz,
    due_at timestamptz,
    lease_token uuid,
    lease_until timestamptz,
    attempts integer DEFAULT 0 NOT NULL,
    CONSTRAINT workflow_runs_pkey PRIMARY KEY (organization_uuid, id),
    CONSTRAINT workflow_runs_state_is_known CHECK (state_name IN ('initiated', 'run', 'completed', 'failed'))
) WITH (fillfactor = 90);
CREATE INDEX workflow_runs_due ON lorebus.workflow_runs (organization_uuid, due_at, id) WHERE state_name = 'run';
COMMENT ON INDEX lorebus.workflow_runs_due IS 'runs.claim_due';
CREATE INDEX workflow_runs_initiated ON lorebus.workflow_runs (updated_at) WHERE state_name = 'initiated';
COMMENT ON INDEX lorebus.workflow_runs_initiated IS 'runs.stale_initiated';
CREATE INDEX workflow_runs_session ON lorebus.workflow_runs (organization_uuid, session_uuid)
    WHERE session_uuid IS NOT NULL;
COMMENT ON INDEX lorebus.workflow_runs_session IS 'runs.list_runs, of one session';
CREATE INDEX workflow_runs_listed ON lorebus.workflow_runs
    (organization_uuid, type, state_name, created_at DESC, id DESC);
COMMENT ON INDEX lorebus.workflow_runs_listed IS 'runs.list_runs, of one type and state';
CREATE INDEX workflow_runs_finished ON lorebus.workflow_runs (finished_at) WHERE finished_at IS NOT NULL;
COMMENT ON INDEX lorebus.workflow_runs_finished IS 'retention.sweep';

CREATE TABLE lorebus.processed_events (
    organization_uuid uuid NOT NULL,
    consumer text NOT NULL,
    event_id uuid NOT NULL,
    processed_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT processed_events_pkey PRIMARY KEY (organization_uuid, consumer, event_id)
);
CREATE INDEX processed_events_processed ON lorebus.processed_events (processed_at);
COMMENT ON INDEX lorebus.processed_events_processed IS 'retention.sweep';

CREATE TABLE lorebus.idempotency_keys (
    organization_uuid uuid NOT NULL,
    route text NOT NULL,
    key text NOT NULL,
    body_hash bytea NOT NULL,
    status integer,
    response bytea,
    created_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (organization_uuid, route, key)
);
CREATE INDEX idempotency_keys_created ON lorebus.idempotency_keys (created_at);
COMMENT ON INDEX lorebus.idempotency_keys_created IS 'retention.sweep';
"""

# Rows of the outbox live for milliseconds: without frequent vacuuming its indexes would be mostly dead entries.
OUTBOX: Final = f"""
CREATE TABLE lorebus.outbox (
    id bigint GENERATED ALWAYS AS IDENTITY,
    organization_uuid uuid NOT NULL,
    shard smallint NOT NULL,
    topic text NOT NULL,
    key bytea NOT NULL,
    payload bytea NOT NULL,
    event_id uuid NOT NULL,
    created_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT outbox_pkey PRIMARY KEY (id),
    CONSTRAINT outbox_shard_in_range CHECK (shard BETWEEN 0 AND {SHARDS - 1})
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX outbox_shard ON lorebus.outbox (shard, id);
COMMENT ON INDEX lorebus.outbox_shard IS 'outbox.lease_shards, outbox.pending: one shard in order';

CREATE TABLE lorebus.outbox_leases (
    shard smallint NOT NULL,
    token uuid,
    leased_until timestamptz,
    CONSTRAINT outbox_leases_pkey PRIMARY KEY (shard)
) WITH (fillfactor = 10);
INSERT INTO lorebus.outbox_leases (shard) SELECT generate_series(0, {SHARDS - 1});
"""

EXTENSION: Final = "CREATE EXTENSION IF NOT EXISTS btree_gin WITH SCHEMA lorebus"


def upgrade() -> None:
    """Make every table."""
    op.execute(EXTENSION)
    for script in (SETTINGS, SESSIONS, MEMORIES, RECALLS, WORK, OUTBOX):
        for statement in script.split(";\n"):
            if statement.strip():
                op.execute(statement)


def downgrade() -> None:
    """There is nothing before the first tables."""
    raise NotImplementedError("these are the first tables: drop the schema `lorebus` instead")
