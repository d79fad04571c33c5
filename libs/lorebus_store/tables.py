"""The tables as SQLAlchemy sees them; `migrations/` makes them, and a test holds the two together.

`organization_uuid` leads every key of a tenant's table. Whatever the plain queries of the other modules need to
know about a column stands here once.
"""

from typing import Any, Final

from sqlalchemy import (
    Column,
    Computed,
    Date,
    DateTime,
    Identity,
    Index,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import (
    ARRAY,
    BIGINT,
    BOOLEAN,
    BYTEA,
    DOUBLE_PRECISION,
    INTEGER,
    JSONB,
    TSVECTOR,
    UUID,
)

from lorebus_store.columns import FALSE, TRUE, ZERO, key, made, moment, optional, principal, required

SCHEMA: Final = "lorebus"

COMPARED: Final[dict[str, Any]] = {
    "version_table_schema": SCHEMA,
    "include_schemas": True,
    "include_name": lambda name, kind, _parents: kind != "schema" or name == SCHEMA,
    "compare_server_default": True,
}
"""How Alembic looks at the database: at our schema only, where its own table is as well."""

metadata: Final = MetaData(schema=SCHEMA)

_ACTIVE: Final = text("state = 'active'")
_OF_SOMEBODY: Final = text("principal_ref IS NOT NULL")


organizations: Final = Table(
    "organizations",
    metadata,
    required("organization_uuid", UUID),
    required("memory_enabled", BOOLEAN, TRUE),
    optional("model_profile", Text),
    made("created_at"),
    made("updated_at"),
    key("organization_uuid"),
)

api_keys: Final = Table(
    "api_keys",
    metadata,
    required("organization_uuid", UUID),
    required("id", UUID),
    required("key_hash", BYTEA),
    required("prefix", Text),
    required("name", Text),
    required("scopes", ARRAY(Text), text("'{read,write,admin}'")),
    made("created_at"),
    moment("last_used_at"),
    moment("revoked_at"),
    key("organization_uuid", "id"),
    UniqueConstraint("key_hash", name="api_keys_key_hash_key"),
)

agent_configs: Final = Table(
    "agent_configs",
    metadata,
    required("organization_uuid", UUID),
    required("agent_config_uuid", UUID),
    required("memory_enabled", BOOLEAN, TRUE),
    required("memory_write_enabled", BOOLEAN, TRUE),
    required("memory_strategy", Text, text("'last_k'")),
    required("memory_top_k", INTEGER, text("10")),
    required("memory_max_entries", INTEGER, text("10000")),
    required("memory_pack_reach", Text, text("'recent'")),
    required("entry_count", BIGINT, ZERO),
    required("reach_pending", BOOLEAN, FALSE),
    optional("reach_cursor", UUID),
    made("created_at"),
    made("updated_at"),
    key("organization_uuid", "agent_config_uuid"),
    Index("agent_configs_reach_pending", "updated_at", postgresql_where=text("reach_pending")),
)

sessions: Final = Table(
    "sessions",
    metadata,
    required("organization_uuid", UUID),
    required("session_uuid", UUID),
    required("agent_config_uuid", UUID),
    optional("caller_kind", Text),
    principal(),
    optional("task", Text),
    moment("registered_at"),
    made("created_at"),
    optional("outcome", Text),
    moment("ended_at"),
    optional("ended_event_id", UUID),
    optional("quality_score", DOUBLE_PRECISION),
    moment("rated_at"),
    optional("rated_event_id", UUID),
    key("organization_uuid", "session_uuid"),
    Index("sessions_principal", "organization_uuid", "principal_ref", postgresql_where=_OF_SOMEBODY),
)

memories: Final = Table(
    "memories",
    metadata,
    required("organization_uuid", UUID),
    required("id", UUID),
    required("agent_config_uuid", UUID),
    principal(),
    required("fingerprint_version", SmallInteger),
    required("fingerprint", BYTEA),
    required("text", Text),
    Column("text_chars", INTEGER, Computed("char_length(text)", persisted=True)),
    required("importance", DOUBLE_PRECISION),
    required("reinforcement_count", INTEGER, ZERO),
    required("access_count", BIGINT, ZERO),
    required("terms", Text),
    optional("term_hashes", BYTEA),
    required("terms_version", SmallInteger),
    required("in_reach", BOOLEAN, FALSE),
    Column(
        "terms_vector",
        TSVECTOR,
        # As PostgreSQL writes it, so that the two can be compared.
        Computed(
            "CASE WHEN in_reach THEN array_to_tsvector(string_to_array(terms, ' '::text)) ELSE NULL::tsvector END",
            persisted=True,
        ),
    ),
    required("origin", Text),
    optional("session_uuid", UUID),
    optional("provenance", JSONB),
    made("created_at"),
    made("updated_at"),
    moment("last_accessed_at"),
    required("state", Text, text("'active'")),
    optional("quarantine_reason", Text),
    required("echo_count", INTEGER, ZERO),
    required("moved_success_count", BIGINT, ZERO),
    required("moved_failed_count", BIGINT, ZERO),
    key("organization_uuid", "id"),
    UniqueConstraint(
        "organization_uuid",
        "agent_config_uuid",
        "principal_ref",
        "fingerprint_version",
        "fingerprint",
        name="memories_identity",
        postgresql_nulls_not_distinct=True,
    ),
    Index(
        "memories_newest",
        "organization_uuid",
        "agent_config_uuid",
        "principal_ref",
        text("created_at DESC"),
        text("id DESC"),
        postgresql_where=_ACTIVE,
    ),
    Index(
        "memories_most_important",
        "organization_uuid",
        "agent_config_uuid",
        "principal_ref",
        text("importance DESC"),
        text("created_at DESC"),
        text("id DESC"),
        postgresql_where=_ACTIVE,
    ),
    Index(
        "memories_of_config",
        "organization_uuid",
        "agent_config_uuid",
        text("importance DESC"),
        text("created_at DESC"),
        text("id DESC"),
        postgresql_where=text("state = 'active' AND importance >= 0"),
    ),
    Index(
        "memories_held",
        "organization_uuid",
        "agent_config_uuid",
        text("importance DESC"),
        text("created_at DESC"),
        text("id DESC"),
        postgresql_where=text("state = 'quarantined'"),
    ),
)
Index(
    "memories_terms",
    memories.c.organization_uuid,
    memories.c.agent_config_uuid,
    func.coalesce(memories.c.principal_ref, text("''")),
    memories.c.terms_vector,
    postgresql_using="gin",
    postgresql_where=text("in_reach AND state = 'active'"),
)

memory_evidence: Final = Table(
    "memory_evidence",
    metadata,
    required("organization_uuid", UUID),
    required("memory_id", UUID),
    required("event_id", UUID),
    required("session_uuid", UUID),
    required("kind", Text),
    made("at"),
    key("organization_uuid", "memory_id", "event_id"),
)

model_usage: Final = Table(
    "model_usage",
    metadata,
    required("organization_uuid", UUID),
    required("day", Date),
    required("calls", INTEGER, ZERO),
    required("prompt_tokens", BIGINT, ZERO),
    required("completion_tokens", BIGINT, ZERO),
    key("organization_uuid", "day"),
)

recalls: Final = Table(
    "recalls",
    metadata,
    required("organization_uuid", UUID),
    required("recall_id", UUID),
    optional("pack_id", UUID),
    required("session_uuid", UUID),
    required("agent_config_uuid", UUID),
    required("caller_kind", Text),
    principal(),
    required("requested_strategy", Text),
    required("strategy", Text),
    required("cue", Text),
    required("top_k", INTEGER),
    required("budget_used_chars", INTEGER),
    required("entry_count", INTEGER),
    required("passed_over", JSONB),
    required("occurred_at", DateTime(timezone=True)),
    made("recorded_at"),
    required("gone_entries", JSONB, text("'[]'")),
    key("organization_uuid", "recall_id"),
    Index("recalls_pack", "organization_uuid", "pack_id", postgresql_where=text("pack_id IS NOT NULL")),
    Index("recalls_session", "organization_uuid", "session_uuid"),
    Index("recalls_principal", "organization_uuid", "principal_ref", postgresql_where=_OF_SOMEBODY),
)

recall_entries: Final = Table(
    "recall_entries",
    metadata,
    required("organization_uuid", UUID),
    required("recall_id", UUID),
    required("memory_id", UUID),
    required("rank", INTEGER),
    optional("score", DOUBLE_PRECISION),
    optional("relevance", DOUBLE_PRECISION),
    required("importance", DOUBLE_PRECISION),
    optional("recency", DOUBLE_PRECISION),
    key("organization_uuid", "recall_id", "memory_id"),
    Index("recall_entries_memory", "organization_uuid", "memory_id"),
)

workflow_runs: Final = Table(
    "workflow_runs",
    metadata,
    required("organization_uuid", UUID),
    required("id", UUID),
    required("type", Text),
    required("state_name", Text),
    required("state_data", JSONB, text("'{}'")),
    required("history", JSONB, text("'[]'")),
    optional("pending_input", BYTEA),
    required("agent_config_uuid", UUID),
    optional("session_uuid", UUID),
    made("created_at"),
    made("updated_at"),
    moment("finished_at"),
    moment("due_at"),
    optional("lease_token", UUID),
    moment("lease_until"),
    required("attempts", INTEGER, ZERO),
    optional("traceparent", Text),
    key("organization_uuid", "id"),
    Index(
        "workflow_runs_due", "organization_uuid", "due_at", "id", postgresql_where=text("state_name = 'run'")
    ),
    Index("workflow_runs_initiated", "updated_at", postgresql_where=text("state_name = 'initiated'")),
    Index(
        "workflow_runs_session",
        "organization_uuid",
        "session_uuid",
        postgresql_where=text("session_uuid IS NOT NULL"),
    ),
    Index(
        "workflow_runs_listed",
        "organization_uuid",
        "type",
        "state_name",
        text("created_at DESC"),
        text("id DESC"),
        postgresql_where=text("attempts >= 0"),
    ),
    Index("workflow_runs_finished", "finished_at", postgresql_where=text("finished_at IS NOT NULL")),
)

processed_events: Final = Table(
    "processed_events",
    metadata,
    required("organization_uuid", UUID),
    required("consumer", Text),
    required("event_id", UUID),
    made("processed_at"),
    key("organization_uuid", "consumer", "event_id"),
    Index("processed_events_processed", "processed_at"),
)

idempotency_keys: Final = Table(
    "idempotency_keys",
    metadata,
    required("organization_uuid", UUID),
    required("route", Text),
    required("key", Text),
    required("body_hash", BYTEA),
    optional("status", INTEGER),
    optional("response", BYTEA),
    made("created_at"),
    key("organization_uuid", "route", "key"),
    Index("idempotency_keys_created", "created_at"),
)

rate_windows: Final = Table(
    "rate_windows",
    metadata,
    required("organization_uuid", UUID),
    required("credential", BYTEA),
    required("ends_at", DateTime(timezone=True)),
    required("taken", INTEGER),
    required("granted", INTEGER),
    key("organization_uuid", "credential"),
)

erasures: Final = Table(
    "erasures",
    metadata,
    required("organization_uuid", UUID),
    required("id", UUID),
    required("subject_kind", Text),
    required("subject_hash", BYTEA),
    optional("agent_config_uuid", UUID),
    required("erased_at", DateTime(timezone=True)),
    required("counts", JSONB),
    key("organization_uuid", "id"),
    Index("erasures_subject", "organization_uuid", "subject_hash"),
)

outbox: Final = Table(
    "outbox",
    metadata,
    Column("id", BIGINT, Identity(always=True), nullable=False),
    required("organization_uuid", UUID),
    required("shard", SmallInteger),
    required("topic", Text),
    required("key", BYTEA),
    required("payload", BYTEA),
    required("event_id", UUID),
    made("created_at"),
    optional("traceparent", Text),
    key("id"),
    Index("outbox_shard", "shard", "id"),
)

outbox_leases: Final = Table(
    "outbox_leases",
    metadata,
    required("shard", SmallInteger),
    optional("token", UUID),
    moment("leased_until"),
    key("shard"),
)
