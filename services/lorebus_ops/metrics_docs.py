"""`docs/metrics.md`: every metric of the registry. `python -m lorebus_ops.metrics_docs` prints it.

Services never import each other, so this one looks up by name where metrics are. The rule that must not break: each
label is explained here, and each has its values from a closed set.
"""

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Final, NamedTuple

from prometheus_client import Counter, Gauge, Histogram

MODULES: Final = ("lorebus_kit.metrics", "lorebus_gateway.metrics")
"""Where metrics are made."""

LABELS: Final = {
    "group": "a consumer group: `lorebus.save`, `lorebus.distill`, `lorebus.labels`, `lorebus.prune`",
    "kind": "of tokens `prompt` or `completion`; of secrets the rule that found one",
    "method": "`GET`, `POST`, `PUT` or `DELETE`",
    "outcome": "what became of it; the metric's help and `docs/architecture/distill.md` name them",
    "partition": "a partition's number",
    "probe": "`live` or `ready`",
    "profile": "a model's name in `LOREBUS_MODELS`",
    "provider": "a model's name in `LOREBUS_MODELS`, `rules`, or `none` where it was not known",
    "reason": "a reason of SPEC.md or of the consumer; of a dead letter also the type of an error",
    "route": "a route as `docs/openapi.json` has it, with its parameters by name",
    "state": "of runs `initiated`, `run`, `completed`, `failed`; of connections `size`, `in_use`, `idle`",
    "status": "an HTTP status; 499 is a client that did not wait for its answer",
    "strategy": "`last_k`, `importance`, `full` or `pack`",
    "tool": "an MCP tool",
    "topic": "a topic, in `lorebus_lag_records` with its prefix",
    "type": "a workflow type that has rows: `agents.memory-save`, `agents.memory-distill`, `agents.memory-prune`",
}

_HEADING: Final = """\
# Metrics

Every process answers `/metrics` in Prometheus' text format: the gateway on its own port, each consumer on its health
port. The names come from one registry (`libs/lorebus_kit/metrics.py`, `services/lorebus_gateway/metrics.py`); this page
is made from it by `.venv/bin/python -m lorebus_ops.metrics_docs > docs/metrics.md`, and a test holds the two together.

Labels have their values from closed sets: never an id, a principal, or a text. Counters end in `_total`; a histogram
has `_bucket`, `_sum` and `_count`. Each process also tells the usual `process_*` metrics of itself.

Outbox and runs are of the whole system and not of a process: only the prune consumer samples them, every ten seconds,
by queries that stop at a limit. Take the `max` over processes, and look at `lorebus_sampled_timestamp_seconds` first.
"""

_Metric = Counter | Gauge | Histogram


class MetricFacts(NamedTuple):
    """A metric as it is scraped: its name without a histogram's endings, kind, labels and help."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str

    @property
    def series(self) -> tuple[str, ...]:
        """The names of its series."""
        if self.kind == "histogram":
            return tuple(f"{self.name}{ending}" for ending in ("_bucket", "_sum", "_count"))
        return (self.name,)


def all_metrics() -> tuple[MetricFacts, ...]:
    """Every metric of the registry by name."""
    return tuple(sorted(_found()))


def whole_page() -> str:
    """What `docs/metrics.md` holds."""
    metrics = [
        f"| `{one.name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} | {one.help} |"
        for one in all_metrics()
    ]
    labels = [f"| `{name}` | {meaning} |" for name, meaning in LABELS.items()]
    return "\n".join(
        (
            _HEADING,
            "| metric | kind | labels | what it says |\n|---|---|---|---|",
            *metrics,
            "\n## Labels\n\n| label | values |\n|---|---|",
            *labels,
            "",
        )
    )


def main() -> None:
    """Print `docs/metrics.md`."""
    sys.stdout.write(whole_page())


def _found() -> Iterator[MetricFacts]:
    for module in MODULES:
        for metric in vars(import_module(module)).values():
            if isinstance(metric, _Metric):
                yield _facts(metric)


def _facts(metric: _Metric) -> MetricFacts:
    (described,) = metric.describe()
    name = described.name + ("_total" if described.type == "counter" else "")
    # There is no public way to a metric's labels before it has a value.
    labels: tuple[str, ...] = tuple(metric._labelnames)  # noqa: SLF001
    return MetricFacts(name, described.type, labels, described.documentation)


if __name__ == "__main__":
    main()
