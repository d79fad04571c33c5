"""`docs/metrics.md` and the registry that it is made from."""

import pytest

from lorebus_ops import metrics_docs
from tests.contract.golden_files import ROOT

PAGE = ROOT / "docs" / "metrics.md"
HOW = "run `.venv/bin/python -m lorebus_ops.metrics_docs > docs/metrics.md`"


def test_the_page_on_metrics_is_what_the_registry_says(capsys: pytest.CaptureFixture[str]) -> None:
    metrics_docs.main()

    assert PAGE.read_text(encoding="utf-8") == capsys.readouterr().out, HOW


def test_the_labels_explained_are_those_that_metrics_have() -> None:
    used = {label for metric in metrics_docs.all_metrics() for label in metric.labels}

    assert used == set(metrics_docs.LABELS)


def test_no_metric_is_labelled_by_what_has_no_end() -> None:
    endless = {
        "organization",
        "organization_uuid",
        "agent_config_uuid",
        "session_uuid",
        "principal_ref",
        "id",
        "text",
    }

    assert [one.name for one in metrics_docs.all_metrics() if endless & set(one.labels)] == []


def test_what_the_gateway_and_the_kit_measure_is_on_the_page() -> None:
    kinds = {one.name: one.kind for one in metrics_docs.all_metrics()}

    assert kinds["lorebus_consumed_total"] == "counter"
    assert kinds["lorebus_recall_seconds"] == "histogram"
    assert kinds["lorebus_runs"] == "gauge"
