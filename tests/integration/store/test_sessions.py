"""Sessions: the same row in whatever order events come."""

import itertools
from datetime import timedelta
from uuid import UUID

import pytest

from lorebus_store import sessions
from lorebus_store.database import Connection
from lorebus_store.sessions import ChangedSession, LearntSession, Session, SessionOutcome, SessionRating
from tests.integration.store.builders import (
    CONFIG,
    NOON,
    ORGANIZATION,
    OTHER_ORGANIZATION,
    SESSION,
    StoreDatabase,
)

LOW, HIGH = UUID(int=1), UUID(int=2)


def ended(outcome: str, *, minutes: int = 0, event_id: UUID = LOW) -> SessionOutcome:
    return SessionOutcome(ORGANIZATION, SESSION, CONFIG, outcome, NOON + timedelta(minutes=minutes), event_id)


def rated(score: float, *, minutes: int = 0, event_id: UUID = LOW) -> SessionRating:
    return SessionRating(ORGANIZATION, SESSION, CONFIG, score, NOON + timedelta(minutes=minutes), event_id)


async def the_session(conn: Connection) -> Session:
    session = await sessions.get(conn, ORGANIZATION, SESSION)
    assert session is not None
    return session


async def register(conn: Connection, *, config: UUID = CONFIG, ref: str = "alice") -> Session:
    return await sessions.register(
        conn,
        organization_uuid=ORGANIZATION,
        session_uuid=SESSION,
        agent_config_uuid=config,
        caller_kind="actor",
        principal_ref=ref,
        task="deploy",
    )


async def test_a_registered_session_stays_as_it_is(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        first = await register(conn)
        second = await register(conn, config=OTHER_ORGANIZATION, ref="bob")
        await sessions.learn(
            conn, [LearntSession(ORGANIZATION, SESSION, OTHER_ORGANIZATION, "none", None, "other")]
        )
        assert second == first == await the_session(conn)
        assert await sessions.get(conn, OTHER_ORGANIZATION, SESSION) is None
    assert (first.agent_config_uuid, first.caller_kind, first.principal_ref, first.task) == (
        CONFIG,
        "actor",
        "alice",
        "deploy",
    )
    assert first.registered_at is not None
    assert first.outcome is None


async def test_a_registration_replaces_what_events_told_and_keeps_how_it_ended(
    database: StoreDatabase,
) -> None:
    async with database.begin() as conn:
        await sessions.learn(
            conn, [LearntSession(ORGANIZATION, SESSION, OTHER_ORGANIZATION, "end_user", "eve", "x")]
        )
        await sessions.apply_outcomes(conn, [ended("success")])
        session = await register(conn)
    assert (
        session.agent_config_uuid,
        session.caller_kind,
        session.principal_ref,
        session.task,
        session.outcome,
    ) == (
        CONFIG,
        "actor",
        "alice",
        "deploy",
        "success",
    )


async def test_events_fill_in_what_nobody_told_yet(database: StoreDatabase) -> None:
    first = LearntSession(ORGANIZATION, SESSION, CONFIG)
    caller = LearntSession(ORGANIZATION, SESSION, CONFIG, "end_user", None)
    task = LearntSession(ORGANIZATION, SESSION, CONFIG, None, None, "deploy")
    other = LearntSession(ORGANIZATION, SESSION, CONFIG, "actor", "bob", "other")
    async with database.begin() as conn:
        await sessions.apply_ratings(conn, [rated(0.5)])
        await sessions.learn(conn, [first])
        await sessions.learn(conn, [first, caller])
        await sessions.learn(conn, [first, task, other])
        await sessions.learn(conn, [])
        session = await the_session(conn)
    assert (session.caller_kind, session.principal_ref, session.task) == ("end_user", None, "deploy")
    assert (session.registered_at, session.quality_score) == (None, 0.5)


@pytest.mark.parametrize(
    "order", list(itertools.permutations([("success", 1, HIGH), ("failed", 1, LOW), ("cancelled", 0, HIGH)]))
)
async def test_the_latest_end_wins_in_any_order(
    database: StoreDatabase, order: tuple[tuple[str, int, UUID], ...]
) -> None:
    events = [ended(outcome, minutes=minutes, event_id=event_id) for outcome, minutes, event_id in order]
    async with database.begin() as conn:
        for event in (*events, *events):
            await sessions.apply_outcomes(conn, [event])
        one_by_one = await the_session(conn)
        together = await sessions.apply_outcomes(conn, events)
    assert (one_by_one.outcome, one_by_one.ended_event_id) == ("success", HIGH)
    assert together == ()


async def test_what_changed_comes_back_with_both_outcome_and_rating(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        changes = [
            await sessions.apply_ratings(conn, [rated(0.2), rated(0.9, minutes=1)]),
            await sessions.apply_outcomes(conn, [ended("failed")]),
            await sessions.apply_ratings(conn, [rated(0.2)]),
            await sessions.apply_outcomes(conn, [ended("failed")]),
            await sessions.apply_outcomes(conn, []),
        ]
    assert changes == [
        (ChangedSession(ORGANIZATION, SESSION, CONFIG, None, 0.9),),
        (ChangedSession(ORGANIZATION, SESSION, CONFIG, "failed", 0.9),),
        (),
        (),
        (),
    ]
