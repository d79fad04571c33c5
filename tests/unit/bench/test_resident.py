"""How much memory a process holds over time."""

from tests.bench.resident import Resident, growth


def test_what_grows_in_the_warm_up_is_no_growth() -> None:
    moments = [float(second) for second in range(10)]
    assert growth(moments, [50.0, 90.0, *[100.0] * 8]) == (
        {"after_warm_up": 100.0, "at_the_end": 100.0, "per_hour": 0.0}
    )


def test_a_leak_is_told_in_megabytes_an_hour() -> None:
    moments = [float(second) for second in range(10)]
    grown = growth(moments, [100.0 + second for second in moments])
    assert grown == {"after_warm_up": 102.0, "at_the_end": 109.0, "per_hour": 3600.0}


def test_the_highest_look_of_each_process_counts() -> None:
    resident = Resident()
    resident.note(0.0, {"save": 70.0, "prune": 60.0})
    resident.note(0.5, {"save": 65.0, "prune": 61.0})
    assert resident.highest() == {"save": 70.0, "prune": 61.0}
