"""Whether an event fits what is known of its session."""

from uuid import UUID

import pytest

from lorebus_contracts.events import CallerBody
from lorebus_kit.session_facts import SessionEvent, _fits
from lorebus_store.sessions import KnownSession
from tests.support.events import NOBODY, UNIDENTIFIED, Scope, actor, end_user, ended, rated, recalled

MINE = Scope(UUID(int=1), UUID(int=2))
OTHER = Scope(UUID(int=1), UUID(int=3))
SESSION = UUID(int=9)
KEY = (MINE.organization_uuid, SESSION)


def of(scope: Scope, caller: CallerBody = NOBODY) -> tuple[SessionEvent, ...]:
    """An event of each kind about the session."""
    return (
        ended(scope, session_uuid=SESSION, caller=caller),
        recalled(scope, [], session_uuid=SESSION, caller=caller),
        rated(scope, 0.5, session_uuid=SESSION),
    )


def known(kind: str | None, ref: str | None, *, registered: bool) -> dict[tuple[UUID, UUID], KnownSession]:
    return {KEY: KnownSession(MINE.agent_config_uuid, kind, ref, registered)}


def test_a_session_that_nobody_has_spoken_of_fits_whatever_is_told() -> None:
    assert all(_fits(event, {}) for event in (*of(MINE), *of(OTHER)))


@pytest.mark.parametrize("registered", [True, False])
def test_another_agent_config_never_fits(registered: bool) -> None:  # noqa: FBT001 - A parameter of the test.
    session = known("none", None, registered=registered)
    assert [_fits(event, session) for event in (*of(MINE), *of(OTHER))] == [True] * 3 + [False] * 3


@pytest.mark.parametrize(
    ("caller", "fits"),
    [
        (end_user("bob"), True),
        (end_user("Bob"), False),
        (end_user("bob "), False),
        (actor("bob"), False),
        (UNIDENTIFIED, False),
        (NOBODY, False),
    ],
)
def test_of_a_registered_session_only_its_own_caller_fits_and_a_rating_names_none(
    caller: CallerBody,
    fits: bool,  # noqa: FBT001 - A parameter of the test.
) -> None:
    session = known("end_user", "bob", registered=True)
    assert [_fits(event, session) for event in of(MINE, caller)] == [fits, fits, True]


def test_of_a_session_that_events_alone_told_of_any_caller_fits() -> None:
    assert all(_fits(event, known("end_user", "bob", registered=False)) for event in of(MINE, actor("ann")))


@pytest.mark.parametrize("ref", [None, "", "  "])
def test_a_blank_reference_is_no_other_caller_than_none(ref: str | None) -> None:
    session = known("end_user", None, registered=True)
    caller = UNIDENTIFIED if ref is None else end_user(ref)
    assert all(_fits(event, session) for event in of(MINE, caller))
