"""Alerts and dashboards ask for what there is, and an alert leads to the runbook."""

import json
import re
from typing import Final

import pytest
import yaml

from tests.contract.deploy.monitoring_files import (
    ALERT_TESTS,
    DASHBOARDS,
    LABELS_OF,
    NOT_OURS,
    OF_SCRAPING,
    Expression,
    alert_rules,
    expressions,
)
from tests.contract.golden_files import ROOT

RUNBOOK: Final = ROOT / "docs" / "runbook.md"
every_expression = pytest.mark.parametrize("expression", expressions(), ids=lambda one: one.where)


@every_expression
def test_an_expression_names_metrics_and_labels_that_there_are(expression: Expression) -> None:
    for series, labels in expression.selectors():
        assert series in LABELS_OF or series in NOT_OURS
        assert labels <= LABELS_OF.get(series, frozenset()) | OF_SCRAPING
    assert expression.selectors()


@every_expression
def test_what_an_expression_groups_by_and_shows_is_a_label_of_its_metrics(expression: Expression) -> None:
    known = OF_SCRAPING.union(*(LABELS_OF.get(series, frozenset()) for series, _ in expression.selectors()))

    assert expression.grouped_by() <= known
    if expression.grouped_by():
        assert expression.shown <= expression.grouped_by()
    assert expression.shown <= known


def test_an_expression_with_an_unknown_metric_or_label_would_be_found() -> None:
    told = Expression("x", 'sum by (le, topik) (rate(lorebus_consumd_total{grup="a"}[5m]))', frozenset())

    assert told.selectors() == (("lorebus_consumd_total", frozenset({"grup"})),)
    assert told.grouped_by() == {"le", "topik"}
    assert "lorebus_consumd_total" not in LABELS_OF


@pytest.mark.parametrize("rule", tuple(alert_rules()), ids=lambda rule: rule["alert"])
def test_an_alert_leads_to_an_entry_of_the_runbook(rule: dict[str, dict[str, str]]) -> None:
    headings = re.findall("^## (.+)$", RUNBOOK.read_text(encoding="utf-8"), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}

    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert page == "docs/runbook.md"
    assert anchor in anchors
    assert rule["labels"]["severity"] in {"critical", "warning"}


def test_a_tested_alert_is_one_that_there_is() -> None:
    tests = yaml.safe_load(ALERT_TESTS.read_text(encoding="utf-8"))["tests"]
    tested = {asked["alertname"] for test in tests for asked in test["alert_rule_test"]}

    assert tested <= {rule["alert"] for rule in alert_rules()}
    assert "LorebusDeadLetters" in tested


def test_there_are_four_dashboards_and_their_panels_do_not_overlap() -> None:
    assert [path.stem for path in DASHBOARDS] == ["consumers", "distill", "overview", "recall"]
    for path in DASHBOARDS:
        taken: set[tuple[int, int]] = set()
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]:
            at = panel["gridPos"]
            cells = {
                (x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
            }
            assert not taken & cells
            assert max(x for x, _ in cells) < 24
            taken |= cells
