"""Run ids that are known again before any row of theirs exists."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4, uuid5

import pytest

from lorebus_contracts.workflows import WorkflowType
from lorebus_kit.run_ids import RunIds, distill_run_id, distill_save_id

ORGANIZATION = UUID("00000000-0000-4000-8000-0000000000a1")
FOREIGN = UUID("00000000-0000-4000-8000-0000000000a2")
SESSION = UUID("00000000-0000-4000-8000-0000000000e1")
NOW = datetime(2026, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)
SAVE = WorkflowType.MEMORY_SAVE
PRUNE = WorkflowType.MEMORY_PRUNE
IDS = RunIds(["first-secret-of-the-tests-0123456789"])


def test_an_id_is_recognised_with_its_type_and_time() -> None:
    run_id = IDS.make(ORGANIZATION, SAVE, now=NOW)

    found = IDS.recognise(run_id, ORGANIZATION, among=(PRUNE, SAVE), now=NOW)

    assert found is not None
    assert (found.workflow_type, found.made_at) == (SAVE, NOW)


def test_an_id_is_a_version_8_uuid_of_the_standard_variant() -> None:
    run_id = IDS.make(ORGANIZATION, SAVE, now=NOW)

    assert (run_id.version, run_id.variant) == (8, "specified in RFC 4122")


def test_an_id_is_not_recognised_for_another_organization_or_type() -> None:
    run_id = IDS.make(ORGANIZATION, SAVE, now=NOW)

    assert IDS.recognise(run_id, FOREIGN, among=(SAVE,), now=NOW) is None
    assert IDS.recognise(run_id, ORGANIZATION, among=(PRUNE,), now=NOW) is None


def test_another_gateway_with_the_same_secrets_recognises_an_id_also_after_a_rotation() -> None:
    run_id = IDS.make(ORGANIZATION, SAVE, now=NOW)
    rotated = RunIds(["second-secret-of-the-tests-987654321", "first-secret-of-the-tests-0123456789"])
    stranger = RunIds(["second-secret-of-the-tests-987654321"])

    assert rotated.recognise(run_id, ORGANIZATION, among=(SAVE,), now=NOW) is not None
    assert stranger.recognise(run_id, ORGANIZATION, among=(SAVE,), now=NOW) is None


def test_ten_thousand_ids_of_one_millisecond_are_all_different() -> None:
    assert len({IDS.make(ORGANIZATION, SAVE, now=NOW) for _ in range(10_000)}) == 10_000


def test_an_id_with_any_bit_changed_is_not_recognised() -> None:
    run_id = IDS.make(ORGANIZATION, SAVE, now=NOW)
    changed = [UUID(int=run_id.int ^ (1 << bit)) for bit in range(128)]

    assert not [one for one in changed if IDS.recognise(one, ORGANIZATION, among=(SAVE,), now=NOW)]


@pytest.mark.parametrize("foreign", [UUID(int=0), UUID(int=2**128 - 1), uuid4(), distill_run_id(SESSION)])
def test_an_id_that_was_not_made_here_is_not_recognised(foreign: UUID) -> None:
    assert IDS.recognise(foreign, ORGANIZATION, among=tuple(WorkflowType), now=NOW) is None


def test_an_id_is_believed_for_seven_days() -> None:
    run_id = IDS.make(ORGANIZATION, SAVE, now=NOW)

    assert IDS.recognise(run_id, ORGANIZATION, among=(SAVE,), now=NOW + timedelta(days=6)) is not None
    assert IDS.recognise(run_id, ORGANIZATION, among=(SAVE,), now=NOW + timedelta(days=8)) is None


def test_an_id_of_a_gateway_whose_clock_is_a_little_ahead_is_believed() -> None:
    run_id = IDS.make(ORGANIZATION, SAVE, now=NOW + timedelta(seconds=5))

    assert IDS.recognise(run_id, ORGANIZATION, among=(SAVE,), now=NOW) is not None


def test_a_session_has_one_distill_run_and_one_save_of_it() -> None:
    assert distill_run_id(SESSION) == uuid5(SESSION, "distill-run:v1")
    assert distill_save_id(SESSION) == uuid5(SESSION, "distill:v1")
