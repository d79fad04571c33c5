from typing import Any

from tests.isolation.report import section, updated


def line(name: str = "as in production", *, operations: int = 10_000, foreign: int = 0) -> dict[str, Any]:
    return {
        "name": name,
        "seed": 1,
        "operations": operations,
        "by_operation": {"load": 6000, "save": 4000},
        "by_status": {"200": 6000, "202": 4000},
        "answers": 10_500,
        "own": 12_345,
        "foreign": foreign,
        "of_other_organizations": foreign,
        "first_leak_after": 480 if foreign else None,
        "seconds": 61.4,
        "at": "2026-01-02T03:04:05+00:00",
    }


def test_each_run_is_a_row_with_its_seed_and_its_counts() -> None:
    told = section([line(), line("without filters and policies", operations=539, foreign=7)])

    assert "| as in production | 1 | 10 000 | 10 500 | 12 345 | 0 | 0 | 61 | 2026-01-02 |\n" in told
    assert "| without filters and policies (first after 480) | 1 | 539 | " in told
    assert " | **7** | **7** | " in told
    assert "The longest run, by operation: load 6 000, save 4 000.\n" in told


def test_only_the_sections_own_place_in_the_page_is_written_anew() -> None:
    page = "# Isolation report\n\nWhat is said.\n\n## Forgeries\n\nNone.\n"
    with_it = updated(page, "## The search for foreign texts\n\nfirst\n")
    followed = with_it + "\n## Plans\n\nShown.\n"

    assert with_it == page + "\n## The search for foreign texts\n\nfirst\n"
    assert updated(followed, "## The search for foreign texts\n\nsecond\n") == followed.replace(
        "first", "second"
    )
