"""What a soak is told as."""

from tests.bench.resident import Resident
from tests.bench.soak_report import soak_markdown, soak_text, told
from tests.bench.soak_users import Answered


def test_a_soak_is_told_for_a_terminal_and_for_a_page() -> None:
    answered = Answered()
    answered.answers += [(0.5, "save", 2.0), (1.0, "save", 4.0), (6.0, "load pack", 8.0)]
    resident = Resident([0.0, 0.5], {"save": [80.0, 80.0]})
    results = {
        **told(answered, resident),
        "environment": {"began": "2026-01-02", "commit": "abc"},
        "minutes": 10.0,
        "complaints": ["a save is lost"],
    }
    text, page = soak_text(results), soak_markdown(results)
    assert "3 requests in 10 minutes" in text
    assert "The checker complains of 1:\na save is lost" in text
    assert "| save | 2 | 2 | 4 | 4 |" in page
    assert "| save | 80 | 80 | 0 |" in page
    assert "begun 2026-01-02 at commit abc" in page


def test_answers_are_put_together_in_steps_of_five_seconds() -> None:
    answered = Answered()
    answered.answers += [(0.5, "save", 2.0), (4.9, "save", 4.0), (5.0, "save", 8.0)]
    over_time = told(answered, Resident())["over_time"]
    assert over_time == {"save": [{"at": 0, "p50": 2.0, "p99": 4.0}, {"at": 5, "p50": 8.0, "p99": 8.0}]}
