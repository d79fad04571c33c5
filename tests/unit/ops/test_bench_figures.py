"""The figures of a bench, from times that are known."""

from lorebus_domain.recall import Strategy
from lorebus_ops.bench_figures import Measured, figures, percentile, report


def test_a_percentile_is_a_value_that_was_measured() -> None:
    hundred = [float(value) for value in range(100, 0, -1)]

    assert percentile(hundred, 0.50) == 50.0
    assert percentile(hundred, 0.99) == 99.0
    assert percentile([3.0, 1.0, 2.0], 0.50) == 2.0
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0
    assert percentile([0.25], 0.50) == 0.25


def test_nothing_measured_has_no_percentile() -> None:
    assert figures([], over_seconds=10.0) == {"count": 0, "per_second": 0.0, "p50_ms": None, "p99_ms": None}


def test_a_report_has_rates_times_in_milliseconds_and_what_failed() -> None:
    measured = Measured(saves=[0.002, 0.004, 0.0061], visible=[0.05], unseen=1)
    measured.loads[Strategy.PACK] = [0.003, 0.001]
    measured.failed.update(["503", "429", "503"])

    assert report(measured, over_seconds=2.0) == {
        "saves_accepted": {"count": 3, "per_second": 1.5, "p50_ms": 4.0, "p99_ms": 6.1},
        "save_to_visible": {"count": 1, "per_second": 0.5, "p50_ms": 50.0, "p99_ms": 50.0, "unseen": 1},
        "loads": {"pack": {"count": 2, "per_second": 1.0, "p50_ms": 1.0, "p99_ms": 3.0}},
        "failed": {"429": 1, "503": 2},
    }
