from tests.faults.report import report


def line(name: str, *, verdict: str = "passed", seed: int = 1, injected: int = 2) -> dict[str, object]:
    return {
        "name": name,
        "broker": "Apache Kafka",
        "seed": seed,
        "rounds": 2,
        "injected": injected,
        "verdict": verdict,
        "seconds": 3.5,
        "at": "2026-01-02T03:04:05+00:00",
    }


def test_a_scenario_is_told_as_its_sentence_with_all_its_runs_together() -> None:
    told = report(
        [line("test_a_cable_is_cut[save_it]"), line("test_a_cable_is_cut[save_it]", seed=2, injected=3)]
    )

    assert "## Apache Kafka\n\n1 scenarios, 5 faults injected, 2026-01-02.\n" in told
    assert "| a cable is cut (save it) | 5 | nothing lost, doubled or stuck | 1, 2 |\n" in told


def test_a_scenario_that_failed_once_is_told_as_failed() -> None:
    told = report([line("test_a_cable_is_cut", verdict="failed"), line("test_a_cable_is_cut")])

    assert "| a cable is cut | 4 | **failed** in 1 of 2 runs | 1 |\n" in told
