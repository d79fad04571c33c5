"""The alerts and dashboards, and what their expressions name."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import yaml

from lorebus_ops.metrics_docs import all_metrics
from tests.contract.golden_files import ROOT

DEPLOY: Final = ROOT / "deploy"
ALERTS: Final = DEPLOY / "prometheus" / "alerts.yml"
ALERT_TESTS: Final = DEPLOY / "prometheus" / "alerts.test.yml"
DASHBOARDS: Final = tuple(sorted((DEPLOY / "grafana" / "dashboards").glob("*.json")))

OF_SCRAPING: Final = frozenset({"job", "instance", "le"})
"""Labels that a scrape adds, or a histogram has."""
NOT_OURS: Final = frozenset({"up", "process_cpu_seconds_total", "process_resident_memory_bytes"})

LABELS_OF: Final[dict[str, frozenset[str]]] = {
    series: frozenset(metric.labels) for metric in all_metrics() for series in metric.series
}


class Expression(NamedTuple):
    """A PromQL expression, where it stands, and the labels that a text beside it fills in."""

    where: str
    promql: str
    shown: frozenset[str]

    def selectors(self) -> tuple[tuple[str, frozenset[str]], ...]:
        """The series that it selects with the labels that it selects them by."""
        found = re.findall(r"\b((?:lorebus|process)_\w+|up\b)(?:\{([^}]*)\})?", self.promql)
        return tuple((name, frozenset(re.findall(r"(\w+)\s*[=!]~?", inside))) for name, inside in found)

    def grouped_by(self) -> frozenset[str]:
        """The labels that it keeps."""
        groups = re.findall(r"\bby \(([^)]*)\)", self.promql)
        return frozenset(label.strip() for group in groups for label in group.split(","))


def alert_rules() -> Iterator[dict[str, Any]]:
    """Every rule."""
    for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]:
        yield from group["rules"]


def expressions() -> tuple[Expression, ...]:
    """Those of all alerts and panels."""
    return (*map(_of_alert, alert_rules()), *_of_dashboards())


def _of_alert(rule: dict[str, Any]) -> Expression:
    shown = re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])
    return Expression(rule["alert"], rule["expr"], frozenset(shown))


def _of_dashboards() -> Iterator[Expression]:
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]:
            for target in panel["targets"]:
                shown = frozenset(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                yield Expression(f"{path.stem}: {panel['title']}", target["expr"], shown)
