"""P1 to P11 out of what was measured."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.bench.figures import BUS, LOREBUS, RAW_DELETE, STORE, TRIAL, reached


def save_run(per_second: float, *, wrong: int = 0) -> Mapping[str, float]:
    return {"per_second": per_second, "wrong": wrong, "backlog_seconds": 0.25}


def load_run(per_second: float, p50: float, p99: float) -> Mapping[str, float]:
    return {"per_second": per_second, "p50": p50, "p99": p99}


def test_nothing_measured_is_nothing_reached() -> None:
    assert {key: value for key, value in reached({}).items() if value is not None} == {}


def test_saves_are_compared_with_their_neighbours_of_the_trial() -> None:
    results: Mapping[str, Any] = {
        "judged": BUS,
        "saves": {
            TRIAL: {"1": [save_run(100), save_run(50), save_run(80)]},
            BUS: {"1": [save_run(50), save_run(20), save_run(40)]},
            STORE: {"1": [save_run(10), save_run(10), save_run(10)]},
        },
    }
    found = reached(results)
    assert (found["saves_1"], found["lost_saves"]) == (0.5, 0.0)


def test_every_wrong_save_and_every_complaint_counts_as_lost() -> None:
    results: Mapping[str, Any] = {
        "judged": BUS,
        "saves": {BUS: {"5": [save_run(50, wrong=1)]}, STORE: {"5": [save_run(50, wrong=2)]}},
        "backlog": [save_run(50, wrong=4)],
        "complaints": ["the counter says 3, there are 2 entries"],
    }
    found = reached(results)
    assert (found["lost_saves"], found["backlog_seconds"]) == (8.0, 0.25)


def test_loads_are_judged_at_the_largest_size_and_grow_from_the_smallest() -> None:
    results: Mapping[str, Any] = {
        "loads": {
            TRIAL: {"1000": {"pack": [load_run(200, 1, 2)]}, "20000": {"pack": [load_run(100, 2, 4)]}},
            LOREBUS: {
                "1000": {"pack": [load_run(90, 4, 5)], "full": [load_run(9, 8, 9)]},
                "20000": {"pack": [load_run(60, 5, 6)], "full": [load_run(9, 16, 18)]},
            },
        }
    }
    found = reached(results)
    assert (found["pack_rate"], found["pack_p99"]) == (0.6, 1.5)
    assert (found["growth_pack"], found["growth_full"]) == (1.25, 2.0)


def test_a_prune_is_compared_with_plain_deletes_and_its_loads_with_those_before() -> None:
    found = reached(
        {
            "prunes": {
                LOREBUS: [{"seconds": 3.0, "p99_before": 10.0, "p99_meanwhile": 12.0}],
                RAW_DELETE: [{"seconds": 2.0, "p99_before": 10.0, "p99_meanwhile": 11.0}],
            }
        }
    )
    assert (found["prune_time"], found["prune_p99"]) == (1.5, 1.2)


def test_the_largest_gateway_and_the_largest_consumer_of_all_looks_count() -> None:
    found = reached(
        {
            "resident": {
                "idle": {"gateway": 90.0, "save": 70.0, "prune": 75.0},
                "saves": {"gateway": 95.0, "gateway (bus)": 97.0, "save": 80.0, "prune": 75.0},
            },
            "cold_starts": [{"answered_seconds": 4.0}, {"answered_seconds": 2.0}, {"answered_seconds": 3.0}],
        }
    )
    assert (found["gateway_mb"], found["consumer_mb"], found["cold_start"]) == (97.0, 80.0, 3.0)


def test_saves_are_set_against_a_peer_that_was_measured() -> None:
    found = reached(
        {
            "judged": BUS,
            "saves": {BUS: {"1": [save_run(3000)]}},
            "peers": {
                "mem0": {"installed": True, "saves_per_second": 300.0},
                "hindsight": {"installed": False},
            },
        }
    )
    assert found["over_mem0"] == pytest.approx(10.0)
    assert "over_hindsight" not in found
