"""Which sessions are distilled (SPEC.md section 4)."""

import pytest

from lorebus_domain.distilling import DistillSkip, distill_gate
from lorebus_domain.visibility import Actor, Caller, EndUser, NoCaller


def gate(
    *,
    organization_enabled: bool = True,
    config_enabled: bool = True,
    write_enabled: bool = True,
    outcome: str = "success",
    step_count: int = 2,
    caller: Caller = EndUser("ann"),  # noqa: B008 - frozen.
) -> DistillSkip | None:
    return distill_gate(
        organization_enabled=organization_enabled,
        config_enabled=config_enabled,
        write_enabled=write_enabled,
        outcome=outcome,
        step_count=step_count,
        caller=caller,
    )


@pytest.mark.parametrize("outcome", ["success", "failed"])
@pytest.mark.parametrize("caller", [EndUser("ann"), Actor("dev-1"), NoCaller()])
def test_a_session_that_ended_well_or_badly_for_a_known_caller_or_none_is_distilled(
    outcome: str, caller: Caller
) -> None:
    assert gate(outcome=outcome, caller=caller) is None


def test_memory_off_at_the_organization_skips() -> None:
    assert gate(organization_enabled=False) is DistillSkip.MEMORY_DISABLED


def test_memory_off_at_the_agent_config_skips() -> None:
    assert gate(config_enabled=False) is DistillSkip.MEMORY_DISABLED


def test_writing_off_skips() -> None:
    assert gate(write_enabled=False) is DistillSkip.WRITE_DISABLED


@pytest.mark.parametrize("outcome", ["cancelled", "running", "", "SUCCESS"])
def test_any_other_end_skips(outcome: str) -> None:
    assert gate(outcome=outcome) is DistillSkip.NOT_TERMINAL


@pytest.mark.parametrize("step_count", [1, 0, -1])
def test_fewer_than_two_steps_skip(step_count: int) -> None:
    assert gate(step_count=step_count) is DistillSkip.TOO_FEW_STEPS


def test_an_end_user_whom_nobody_could_name_skips() -> None:
    assert gate(caller=EndUser(None)) is DistillSkip.UNIDENTIFIED_END_USER


def test_of_several_reasons_the_first_in_order_is_given() -> None:
    unknown = EndUser(None)

    assert (
        gate(organization_enabled=False, write_enabled=False, outcome="x", step_count=0, caller=unknown)
        is DistillSkip.MEMORY_DISABLED
    )
    assert gate(write_enabled=False, outcome="x", step_count=0, caller=unknown) is DistillSkip.WRITE_DISABLED
    assert gate(outcome="x", step_count=0, caller=unknown) is DistillSkip.NOT_TERMINAL
    assert gate(step_count=0, caller=unknown) is DistillSkip.TOO_FEW_STEPS
