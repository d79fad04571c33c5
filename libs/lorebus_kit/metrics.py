"""The one registry of metrics. Labels come from closed sets, never from ids or texts."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

REGISTRY: Final = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

_PARTITION: Final = ("topic", "group", "partition")
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

CONSUMED: Final = Counter(
    "lorebus_consumed", "Records whose outcome is decided.", _PARTITION, registry=REGISTRY
)
APPLIED: Final = Counter("lorebus_applied", "Records that had their effect.", _PARTITION, registry=REGISTRY)
DUPLICATE: Final = Counter(
    "lorebus_duplicate", "Records whose effect was there already.", _PARTITION, registry=REGISTRY
)
SKIPPED: Final = Counter(
    "lorebus_skipped", "Records that rightly have no effect.", (*_PARTITION, "reason"), registry=REGISTRY
)
DEAD_LETTERED: Final = Counter(
    "lorebus_dead_lettered", "Records set aside for a person.", (*_PARTITION, "reason"), registry=REGISTRY
)
RETRIED: Final = Counter(
    "lorebus_retried", "Batches tried again after a passing fault.", ("group",), registry=REGISTRY
)
HALTED: Final = Gauge(
    "lorebus_halted",
    "1 while the consumer stands still after too many dead letters.",
    ("group",),
    registry=REGISTRY,
)
BATCH_RECORDS: Final = Histogram(
    "lorebus_batch_records",
    "Records a batch.",
    ("group",),
    buckets=(1, 2, 5, 10, 25, 50, 100, 250, 500, 1000),
    registry=REGISTRY,
)
HANDLER_SECONDS: Final = Histogram(
    "lorebus_handler_seconds",
    "From a batch's arrival to its commit.",
    ("group",),
    buckets=_SECONDS,
    registry=REGISTRY,
)
END_TO_END_SECONDS: Final = Histogram(
    "lorebus_end_to_end_seconds",
    "From an event's occurred_at to the commit of its effect.",
    ("topic", "group"),
    buckets=(*_SECONDS, 300, 900, 3600),
    registry=REGISTRY,
)
LAG: Final = Gauge("lorebus_lag_records", "Records not yet handled.", _PARTITION, registry=REGISTRY)
OUTBOX_PUBLISHED: Final = Counter(
    "lorebus_outbox_published", "Outbox rows confirmed by the broker.", ("topic",), registry=REGISTRY
)
OUTBOX_FAILED: Final = Counter(
    "lorebus_outbox_failed", "Rounds of the relay that met a fault.", (), registry=REGISTRY
)
OUTBOX_ROWS: Final = Gauge(
    "lorebus_outbox_rows",
    "Rows waiting in the outbox, counted up to 10 000; sampled by the prune consumer.",
    (),
    registry=REGISTRY,
)
OUTBOX_AGE: Final = Gauge(
    "lorebus_outbox_age_seconds",
    "Age of the oldest waiting row; sampled as its rows are.",
    (),
    registry=REGISTRY,
)
RUNS: Final = Gauge(
    "lorebus_runs",
    "Runs: `initiated` and `run` now, `completed` and `failed` within the last five minutes; each counted up to"
    " 10 000. Sampled by the prune consumer.",
    ("type", "state"),
    registry=REGISTRY,
)
RUNS_OLDEST: Final = Gauge(
    "lorebus_runs_oldest_seconds",
    "Age of the oldest run that has not ended; sampled as the runs are.",
    ("type", "state"),
    registry=REGISTRY,
)
SAMPLED: Final = Gauge(
    "lorebus_sampled_timestamp_seconds",
    "When this process last sampled outbox and runs, in seconds since 1970; 0 where it does not sample.",
    (),
    registry=REGISTRY,
)
CONNECTIONS: Final = Gauge(
    "lorebus_database_connections",
    "Connections of the process's pool: the most it may hold (`size`), in use now (`in_use`), open but `idle`.",
    ("state",),
    registry=REGISTRY,
)
HEALTHY: Final = Gauge(
    "lorebus_healthy",
    "1 while a probe of the process answers 200, else 0; looked at when the metrics are.",
    ("probe",),
    registry=REGISTRY,
)
SWEPT: Final = Counter(
    "lorebus_swept", "Runs that stayed initiated and were put on the bus again.", (), registry=REGISTRY
)

MODEL_CALLS: Final = Counter(
    "lorebus_model_calls", "Calls of a model.", ("profile", "outcome"), registry=REGISTRY
)
MODEL_SECONDS: Final = Histogram(
    "lorebus_model_seconds",
    "From a call of a model to its answer, or to its end without one.",
    ("profile",),
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600),
    registry=REGISTRY,
)
MODEL_TOKENS: Final = Counter(
    "lorebus_model_tokens",
    "Tokens that models were sent (prompt) and answered (completion).",
    ("profile", "kind"),
    registry=REGISTRY,
)
MODEL_OVER_BUDGET: Final = Counter(
    "lorebus_model_over_budget",
    "Calls of a model that were not made, because an organization's budget of the day is used up.",
    (),
    registry=REGISTRY,
)
DISTILLED: Final = Counter(
    "lorebus_distilled",
    "What became of claimed distills: lessons, no_lessons, failed, retried, postponed, skipped.",
    ("provider", "outcome"),
    registry=REGISTRY,
)
REDACTED: Final = Counter(
    "lorebus_redacted",
    "Secrets taken out of sessions before they were distilled.",
    ("kind",),
    registry=REGISTRY,
)
HELD: Final = Counter(
    "lorebus_held", "Distilled lessons that were saved quarantined.", ("reason",), registry=REGISTRY
)
