"""Which sessions the live tail is told of as labelled."""

from uuid import UUID

import pytest

from lorebus_recall_labeller.handlers import _changes, _is_label
from lorebus_store.sessions import ChangedSession

ORGANIZATION, CONFIG, OTHER = UUID(int=1), UUID(int=2), UUID(int=3)


def session(
    number: int = 9, *, outcome: str | None = None, score: float | None = None, config: UUID = CONFIG
) -> ChangedSession:
    return ChangedSession(ORGANIZATION, UUID(int=number), config, outcome, score)


@pytest.mark.parametrize(
    ("outcome", "score", "is_label"),
    [
        ("success", None, True),
        ("failed", None, True),
        ("cancelled", None, False),
        ("Success", None, False),
        (None, None, False),
        ("failed", 0.9, False),
    ],
)
def test_an_end_is_a_label_if_it_is_success_or_failed_and_nobody_rated_the_session(
    outcome: str | None,
    score: float | None,
    is_label: bool,  # noqa: FBT001 - A parameter of the test.
) -> None:
    assert _is_label(session(outcome=outcome, score=score)) is is_label


def test_a_session_that_ended_and_was_rated_in_one_batch_is_told_once_for_its_agent_config() -> None:
    ended, rated = session(7, outcome="failed"), session(7, outcome="failed", score=0.9)
    elsewhere = session(8, score=0.1, config=OTHER)
    changes = list(_changes([ended, rated, elsewhere]))
    assert [(change.agent_config_uuid, change.ids, change.count) for change in changes] == [
        (CONFIG, (UUID(int=7),), 1),
        (OTHER, (UUID(int=8),), 1),
    ]
