"""What the gateway measures; labels are route templates, methods and status codes, never ids."""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from lorebus_kit.metrics import REGISTRY

REQUESTS: Final = Counter(
    "lorebus_http_requests", "Requests answered.", ("method", "route", "status"), registry=REGISTRY
)
REQUEST_SECONDS: Final = Histogram(
    "lorebus_http_request_seconds",
    "From a request's head to its answer.",
    ("method", "route"),
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=REGISTRY,
)
TOOL_CALLS: Final = Counter(
    "lorebus_mcp_calls",
    "Calls of MCP tools, by the status that HTTP would have answered with.",
    ("tool", "status"),
    registry=REGISTRY,
)
TOOL_SECONDS: Final = Histogram(
    "lorebus_mcp_call_seconds",
    "From a call of an MCP tool to its answer.",
    ("tool",),
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    registry=REGISTRY,
)
RUNS_WAITED_FOR: Final = Gauge(
    "lorebus_http_runs_waited_for",
    "Requests that wait for a run now, those that watch one among them.",
    registry=REGISTRY,
)
REQUESTS_REPLAYED: Final = Counter(
    "lorebus_http_requests_replayed",
    "Requests with an Idempotency-Key that got the first answer again.",
    registry=REGISTRY,
)
REQUESTS_UNLIMITED: Final = Counter(
    "lorebus_http_requests_unlimited",
    "Requests let through without a permit, because the database gave none.",
    registry=REGISTRY,
)
RECALLS: Final = Counter(
    "lorebus_recalls",
    "Loads answered with a recall, by the strategy that answered.",
    ("strategy",),
    registry=REGISTRY,
)
RECALL_SECONDS: Final = Histogram(
    "lorebus_recall_seconds",
    "From a load's being authenticated to its answer, by the strategy that answered.",
    ("strategy",),
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=REGISTRY,
)
RECALL_ENTRIES: Final = Histogram(
    "lorebus_recall_entries",
    "Entries that a load handed out.",
    ("strategy",),
    buckets=(0, 1, 2, 5, 10, 20, 50, 100, 250, 500, 1000),
    registry=REGISTRY,
)
RECALL_CHARS: Final = Histogram(
    "lorebus_recall_chars",
    "Code points of the text that a load handed out; a pack's budget is 20 000.",
    ("strategy",),
    buckets=(0, 250, 500, 1_000, 2_500, 5_000, 10_000, 15_000, 20_000, 50_000, 200_000),
    registry=REGISTRY,
)
RECALLS_SKIPPED: Final = Counter(
    "lorebus_recalls_skipped", "Loads answered without memory.", ("reason",), registry=REGISTRY
)
RECALL_RECORDS_WAITING: Final = Gauge(
    "lorebus_recall_records_waiting",
    "Recalls that are answered and not yet accepted for recording.",
    registry=REGISTRY,
)
RECALL_RECORDS_LOST: Final = Counter(
    "lorebus_recall_records_lost", "Answered recalls that neither store would take.", registry=REGISTRY
)
FEEDS: Final = Gauge("lorebus_feeds", "Clients that listen to the live tail now.", registry=REGISTRY)
FEEDS_DROPPED: Final = Counter(
    "lorebus_feeds_dropped",
    "Clients of the live tail that were too slow and were cut off.",
    registry=REGISTRY,
)
