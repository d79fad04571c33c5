"""How much is measured."""

import pytest

from tests.bench.places import PUBLISHED
from tests.bench.plan import QUICK, plan_of


def test_the_full_run_is_published() -> None:
    plan = plan_of([])
    assert (plan.memories, plan.sizes, plan.pruned, plan.repetitions) == (
        *(20_000, (1_000, 10_000, 100_000, 1_000_000), 200_000, 5),
    )
    assert plan.folder == PUBLISHED


@pytest.mark.parametrize("words", [["--scale", "0.02"], ["--repetitions", "2"], ["--only", "saves"]])
def test_a_part_of_it_is_not(words: list[str]) -> None:
    assert plan_of(words).folder == QUICK


def test_a_quick_look_is_smaller_in_everything() -> None:
    plan = plan_of(["--scale", "0.02", "--only", "saves,loads"])
    assert (plan.memories, plan.sizes, plan.pruned) == (400, (1_000, 2_000, 20_000), 4_000)
    assert plan.parts == ("saves", "loads")


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        plan_of(["--only", "saves,naps"])
    assert "there is no naps" in capsys.readouterr().err
