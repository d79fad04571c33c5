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
    PrimaryKeyConstraint,
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

SCHEMA: Final = "lorebus"
SHARDS: Final = 16
"""Shards of the outbox: one is relayed by one process at a time, so that a key's order is kept."""

COMPARED: Final[dict[str, Any]] = {
    "version_table_schema": SCHEMA,
    "include_schemas": True,
    "include_name": lambda name, kind, _parents: kind != "schema" or name == SCHEMA,
    "compare_server_default": True,
}
"""How Alembic looks at the database: at our schema only, where its own table is as well."""

metadata: Final = MetaData(schema=SCHEMA)

_TRUE: Final = text("true")
_FALSE: Final = text("false")
_NOW: Final = text("now()")
_ZERO: Final = text("0")
_ACTIVE: Final = text("state = 'active'")
_OF_SOMEBODY: Final = text("principal_ref IS NOT NULL")


def _required(name: str, kind: Any, default: Any = None) -> Column[Any]:  # noqa: ANN401  # As Column's own.
    return Column(name, kind, nullable=False, server_default=default)


def _optional(name: str, kind: Any) -> Column[Any]:  # noqa: ANN401  # As Column's own.
    return Column(name, kind, nullable=True)


def _time(name: str) -> Column[Any]:
    return _optional(name, DateTime(timezone=True))


def _made(name: str) -> Column[Any]:
    return _required(name, DateTime(timezone=True), _NOW)


def _principal() -> Column[Any]:
    # Equality only, and the order of `MemoryScope.sort_key`, which is that of code points.
    return _optional("principal_ref", Text(collation="C"))


def _key(*columns: str) -> PrimaryKeyConstraint:
    return PrimaryKeyConstraint(*columns)


organizations: Final = Table(
    "organizations",
    metadata,
    _required("organization_uuid", UUID),
    _required("memory_enabled", BOOLEAN, _TRUE),
    _optional("model_profile", Text),
    _made("created_at"),
    _made("updated_at"),
    _key("organization_uuid"),
)

api_keys: Final = Table(
    "api_keys",
    metadata,
    _required("organization_uuid", UUID),
    _required("id", UUID),
    _required("key_hash", BYTEA),
    _required("prefix", Text),
    _required("name", Text),
    _required("scopes", ARRAY(Text), text("'{read,write,admin}'")),
    _made("created_at"),
    _time("last_used_at"),
    _time("revoked_at"),
    _key("organization_uuid", "id"),
    UniqueConstraint("key_hash", name="api_keys_key_hash_key"),
)

agent_configs: Final = Table(
    "agent_configs",
    metadata,
    _required("organization_uuid", UUID),
    _required("agent_config_uuid", UUID),
    _required("memory_enabled", BOOLEAN, _TRUE),
    _required("memory_write_enabled", BOOLEAN, _TRUE),
    _required("memory_strategy", Text, text("'last_k'")),
    _required("memory_top_k", INTEGER, text("10")),
    _required("memory_max_entries", INTEGER, text("10000")),
    _required("memory_pack_reach", Text, text("'recent'")),
    _required("entry_count", BIGINT, _ZERO),
    _required("reach_pending", BOOLEAN, _FALSE),
    _optional("reach_cursor", UUID),
    _made("created_at"),
    _made("updated_at"),
    _key("organization_uuid", "agent_config_uuid"),
    Index("agent_configs_reach_pending", "updated_at", postgresql_where=text("reach_pending")),
)

sessions: Final = Table(
    "sessions",
    metadata,
    _required("organization_uuid", UUID),
    _required("session_uuid", UUID),
    _required("agent_config_uuid", UUID),
    _optional("caller_kind", Text),
    _principal(),
    _optional("task", Text),
    _time("registered_at"),
    _made("created_at"),
    _optional("outcome", Text),
    _time("ended_at"),
    _optional("ended_event_id", UUID),
    _optional("quality_score", DOUBLE_PRECISION),
    _time("rated_at"),
    _optional("rated_event_id", UUID),
    _key("organization_uuid", "session_uuid"),
    Index("sessions_principal", "organization_uuid", "principal_ref", postgresql_where=_OF_SOMEBODY),
)

memories: Final = Table(
    "memories",
    metadata,
    _required("organization_uuid", UUID),
    _required("id", UUID),
    _required("agent_config_uuid", UUID),
    _principal(),
    _required("fingerprint_version", SmallInteger),
    _required("fingerprint", BYTEA),
    _required("text", Text),
    Column("text_chars", INTEGER, Computed("char_length(text)", persisted=True)),
    _required("importance", DOUBLE_PRECISION),
    _required("reinforcement_count", INTEGER, _ZERO),
    _required("access_count", BIGINT, _ZERO),
    _required("terms", Text),
    _required("terms_version", SmallInteger),
    _required("in_reach", BOOLEAN, _FALSE),
    Column(
        "terms_vector",
        TSVECTOR,
        # As PostgreSQL writes it, so that the two can be compared.
        Computed(
            "CASE WHEN in_reach THEN array_to_tsvector(string_to_array(terms, ' '::text)) ELSE NULL::tsvector END",
            persisted=True,
        ),
    ),
    _required("origin", Text),
    _optional("session_uuid", UUID),
    _optional("provenance", JSONB),
    _made("created_at"),
    _made("updated_at"),
    _time("last_accessed_at"),
    _required("state", Text, text("'active'")),
    _optional("quarantine_reason", Text),
    _required("echo_count", INTEGER, _ZERO),
    _required("moved_success_count", BIGINT, _ZERO),
    _required("moved_failed_count", BIGINT, _ZERO),
    _key("organization_uuid", "id"),
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
    _required("organization_uuid", UUID),
    _required("memory_id", UUID),
    _required("event_id", UUID),
    _required("session_uuid", UUID),
    _required("kind", Text),
    _made("at"),
    _key("organization_uuid", "memory_id", "event_id"),
)

model_usage: Final = Table(
    "model_usage",
    metadata,
    _required("organization_uuid", UUID),
    _required("day", Date),
    _required("calls", INTEGER, _ZERO),
    _required("prompt_tokens", BIGINT, _ZERO),
    _required("completion_tokens", BIGINT, _ZERO),
    _key("organization_uuid", "day"),
)

recalls: Final = Table(
    "recalls",
    metadata,
    _required("organization_uuid", UUID),
    _required("recall_id", UUID),
    _optional("pack_id", UUID),
    _required("session_uuid", UUID),
    _required("agent_config_uuid", UUID),
    _required("caller_kind", Text),
    _principal(),
    _required("requested_strategy", Text),
    _required("strategy", Text),
    _required("cue", Text),
    _required("top_k", INTEGER),
    _required("budget_used_chars", INTEGER),
    _required("entry_count", INTEGER),
    _required("passed_over", JSONB),
    _required("occurred_at", DateTime(timezone=True)),
    _made("recorded_at"),
    _required("gone_entries", JSONB, text("'[]'")),
    _key("organization_uuid", "recall_id"),
    Index("recalls_pack", "organization_uuid", "pack_id", postgresql_where=text("pack_id IS NOT NULL")),
    Index("recalls_session", "organization_uuid", "session_uuid"),
    Index("recalls_principal", "organization_uuid", "principal_ref", postgresql_where=_OF_SOMEBODY),
)

recall_entries: Final = Table(
    "recall_entries",
    metadata,
    _required("organization_uuid", UUID),
    _required("recall_id", UUID),
    _required("memory_id", UUID),
    _required("rank", INTEGER),
    _optional("score", DOUBLE_PRECISION),
    _optional("relevance", DOUBLE_PRECISION),
    _required("importance", DOUBLE_PRECISION),
    _optional("recency", DOUBLE_PRECISION),
    _key("organization_uuid", "recall_id", "memory_id"),
    Index("recall_entries_memory", "organization_uuid", "memory_id"),
)

workflow_runs: Final = Table(
    "workflow_runs",
    metadata,
    _required("organization_uuid", UUID),
    _required("id", UUID),
    _required("type", Text),
    _required("state_name", Text),
    _required("state_data", JSONB, text("'{}'")),
    _required("history", JSONB, text("'[]'")),
    _optional("pending_input", BYTEA),
    _required("agent_config_uuid", UUID),
    _optional("session_uuid", UUID),
    _made("created_at"),
    _made("updated_at"),
    _time("finished_at"),
    _time("due_at"),
    _optional("lease_token", UUID),
    _time("lease_until"),
    _required("attempts", INTEGER, _ZERO),
    _key("organization_uuid", "id"),
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
    _required("organization_uuid", UUID),
    _required("consumer", Text),
    _required("event_id", UUID),
    _made("processed_at"),
    _key("organization_uuid", "consumer", "event_id"),
    Index("processed_events_processed", "processed_at"),
)

idempotency_keys: Final = Table(
    "idempotency_keys",
    metadata,
    _required("organization_uuid", UUID),
    _required("route", Text),
    _required("key", Text),
    _required("body_hash", BYTEA),
    _optional("status", INTEGER),
    _optional("response", BYTEA),
    _made("created_at"),
    _key("organization_uuid", "route", "key"),
    Index("idempotency_keys_created", "created_at"),
)

rate_windows: Final = Table(
    "rate_windows",
    metadata,
    _required("organization_uuid", UUID),
    _required("credential", BYTEA),
    _required("ends_at", DateTime(timezone=True)),
    _required("taken", INTEGER),
    _required("granted", INTEGER),
    _key("organization_uuid", "credential"),
)

erasures: Final = Table(
    "erasures",
    metadata,
    _required("organization_uuid", UUID),
    _required("id", UUID),
    _required("subject_kind", Text),
    _required("subject_hash", BYTEA),
    _optional("agent_config_uuid", UUID),
    _required("erased_at", DateTime(timezone=True)),
    _required("counts", JSONB),
    _key("organization_uuid", "id"),
    Index("erasures_subject", "organization_uuid", "subject_hash"),
)

outbox: Final = Table(
    "outbox",
    metadata,
    Column("id", BIGINT, Identity(always=True), nullable=False),
    _required("organization_uuid", UUID),
    _required("shard", SmallInteger),
    _required("topic", Text),
    _required("key", BYTEA),
    _required("payload", BYTEA),
    _required("event_id", UUID),
    _made("created_at"),
    _key("id"),
    Index("outbox_shard", "shard", "id"),
)

outbox_leases: Final = Table(
    "outbox_leases",
    metadata,
    _required("shard", SmallInteger),
    _optional("token", UUID),
    _time("leased_until"),
    _key("shard"),
)
