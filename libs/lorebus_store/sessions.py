"""Sessions: what a runtime registered, what events told, and what became of each.

The rule that must not break: the row ends up the same in whatever order events come and however often, and what a
runtime registered is never overwritten by what an event says (ARCHITECTURE.md, "Labels").
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from lorebus_store.statements import Statement


class Session(NamedTuple):
    """A session; `caller_kind` None means that nobody has told it yet, `registered_at` None that events made it."""

    organization_uuid: UUID
    session_uuid: UUID
    agent_config_uuid: UUID
    caller_kind: str | None
    principal_ref: str | None
    task: str | None
    registered_at: datetime | None
    outcome: str | None
    ended_at: datetime | None
    ended_event_id: UUID | None
    quality_score: float | None
    rated_at: datetime | None
    rated_event_id: UUID | None


@dataclass(frozen=True, slots=True)
class LearntSession:
    """What an event tells of a session; None where it does not say."""

    organization_uuid: UUID
    session_uuid: UUID
    agent_config_uuid: UUID
    caller_kind: str | None = None
    principal_ref: str | None = None
    task: str | None = None


@dataclass(frozen=True, slots=True)
class SessionOutcome:
    """That a session ended, and how: `success`, `failed` or any other word."""

    organization_uuid: UUID
    session_uuid: UUID
    agent_config_uuid: UUID
    outcome: str
    occurred_at: datetime
    event_id: UUID


@dataclass(frozen=True, slots=True)
class SessionRating:
    """That somebody rated a session, in [0, 1]."""

    organization_uuid: UUID
    session_uuid: UUID
    agent_config_uuid: UUID
    quality_score: float
    occurred_at: datetime
    event_id: UUID


class KnownSession(NamedTuple):
    """Whose a session is; `caller_kind` None means that nobody has told it yet."""

    agent_config_uuid: UUID
    caller_kind: str | None
    principal_ref: str | None
    is_registered: bool


class ChangedSession(NamedTuple):
    """A session whose outcome or rating changed, with both as they are now."""

    organization_uuid: UUID
    session_uuid: UUID
    agent_config_uuid: UUID
    outcome: str | None
    quality_score: float | None


_COLUMNS: Final = ", ".join(Session._fields)
_GET: Final = Statement(
    f"""
    SELECT {_COLUMNS} FROM lorebus.sessions
    WHERE organization_uuid = :organization_uuid AND session_uuid = :session_uuid
    """
)
_ENDED_AT: Final = Statement(
    """
    SELECT ended_at FROM lorebus.sessions
    WHERE organization_uuid = :organization_uuid AND session_uuid = :session_uuid
    """
)
_KNOWN: Final = Statement(
    """
    SELECT s.organization_uuid, s.session_uuid, s.agent_config_uuid, s.caller_kind, s.principal_ref,
        s.registered_at IS NOT NULL
    FROM lorebus.sessions s
    JOIN unnest(CAST(:organizations AS uuid[]), CAST(:sessions AS uuid[])) AS asked (organization_uuid, session_uuid)
        USING (organization_uuid, session_uuid)
    """
)
_REGISTER: Final = Statement(
    f"""
    INSERT INTO lorebus.sessions AS s
        (organization_uuid, session_uuid, agent_config_uuid, caller_kind, principal_ref, task, registered_at)
    VALUES (:organization_uuid, :session_uuid, :agent_config_uuid, :caller_kind, :principal_ref, :task, now())
    ON CONFLICT (organization_uuid, session_uuid) DO UPDATE SET
        agent_config_uuid = excluded.agent_config_uuid,
        caller_kind = excluded.caller_kind,
        principal_ref = excluded.principal_ref,
        task = coalesce(excluded.task, s.task),
        registered_at = excluded.registered_at
    WHERE s.registered_at IS NULL
    RETURNING {_COLUMNS}
    """
)
_LEARN: Final = Statement(
    """
    INSERT INTO lorebus.sessions AS s
        (organization_uuid, session_uuid, agent_config_uuid, caller_kind, principal_ref, task)
    SELECT * FROM unnest(
        CAST(:organizations AS uuid[]), CAST(:sessions AS uuid[]), CAST(:configs AS uuid[]),
        CAST(:kinds AS text[]), CAST(:principals AS text[]), CAST(:tasks AS text[])
    )
    ON CONFLICT (organization_uuid, session_uuid) DO UPDATE SET
        caller_kind = coalesce(s.caller_kind, excluded.caller_kind),
        principal_ref = CASE WHEN s.caller_kind IS NULL THEN excluded.principal_ref ELSE s.principal_ref END,
        task = coalesce(s.task, excluded.task)
    WHERE s.registered_at IS NULL AND s.agent_config_uuid = excluded.agent_config_uuid AND (
        (s.caller_kind IS NULL AND excluded.caller_kind IS NOT NULL) OR (s.task IS NULL AND excluded.task IS NOT NULL)
    )
    """
)


def _apply(value: str, kind: str, at: str, event_id: str) -> Statement:
    """The statement that keeps the later of two happenings by (time, event id)."""
    return Statement(
        f"""
        INSERT INTO lorebus.sessions AS s
            (organization_uuid, session_uuid, agent_config_uuid, {value}, {at}, {event_id})
        SELECT * FROM unnest(
            CAST(:organizations AS uuid[]), CAST(:sessions AS uuid[]), CAST(:configs AS uuid[]),
            CAST(:values AS {kind}[]), CAST(:times AS timestamptz[]), CAST(:events AS uuid[])
        )
        ON CONFLICT (organization_uuid, session_uuid) DO UPDATE SET
            {value} = excluded.{value}, {at} = excluded.{at}, {event_id} = excluded.{event_id}
        WHERE s.{at} IS NULL OR (s.{at}, s.{event_id}) < (excluded.{at}, excluded.{event_id})
        RETURNING organization_uuid, session_uuid, agent_config_uuid, outcome, quality_score
        """
    )


_APPLY_OUTCOMES: Final = _apply("outcome", "text", "ended_at", "ended_event_id")
_APPLY_RATINGS: Final = _apply("quality_score", "double precision", "rated_at", "rated_event_id")


async def get(conn: AsyncConnection, organization_uuid: UUID, session_uuid: UUID) -> Session | None:
    """The session, registered or learnt; None when the organization has no such session."""
    values = {"organization_uuid": organization_uuid, "session_uuid": session_uuid}
    row = await _GET.row(conn, values)
    return None if row is None else Session(*row)


async def ended_at(conn: AsyncConnection, organization_uuid: UUID, session_uuid: UUID) -> datetime | None:
    """When the session ended, by its latest end; None when nobody has said so, or there is no such session."""
    found: datetime | None = await _ENDED_AT.value(
        conn, {"organization_uuid": organization_uuid, "session_uuid": session_uuid}
    )
    return found


async def known(
    conn: AsyncConnection, keys: Collection[tuple[UUID, UUID]]
) -> Mapping[tuple[UUID, UUID], KnownSession]:
    """Whose those of the (organization_uuid, session_uuid) are that there are, in one query."""
    if not keys:
        return {}
    asked = tuple(set(keys))
    values = {"organizations": [o for o, _ in asked], "sessions": [s for _, s in asked]}
    return {(row[0], row[1]): KnownSession(*row[2:]) for row in await _KNOWN.rows(conn, values)}


async def register(
    conn: AsyncConnection,
    *,
    organization_uuid: UUID,
    session_uuid: UUID,
    agent_config_uuid: UUID,
    caller_kind: str,
    principal_ref: str | None,
    task: str | None,
) -> Session:
    """Register a session, over whatever events told before; a session that is registered stays as it is.

    The answer is the session as it is kept: whoever registers it a second time compares.
    """
    key = {"organization_uuid": organization_uuid, "session_uuid": session_uuid}
    told = {
        "agent_config_uuid": agent_config_uuid,
        "caller_kind": caller_kind,
        "principal_ref": principal_ref,
        "task": task,
    }
    row = await _REGISTER.row(conn, key | told)
    return Session._make(await _GET.row(conn, key) if row is None else row)


async def learn(conn: AsyncConnection, rows: Iterable[LearntSession]) -> None:
    """Keep what events tell of sessions: the first to say something wins, a registration always does.

    Whoever names another agent config than the first is not heard at all. The rows of all sessions named are locked,
    so that what `known` says afterwards stays true until the transaction ends.
    """
    folded: dict[tuple[UUID, UUID], LearntSession] = {}
    for row in rows:
        key = (row.organization_uuid, row.session_uuid)
        folded[key] = _joined(folded[key], row) if key in folded else row
    learnt = [row for _, row in sorted(folded.items())]
    if learnt:
        told = {
            "kinds": [row.caller_kind for row in learnt],
            "principals": [row.principal_ref for row in learnt],
            "tasks": [row.task for row in learnt],
        }
        await _LEARN.run(conn, _keys(learnt) | told)


async def apply_outcomes(conn: AsyncConnection, rows: Iterable[SessionOutcome]) -> tuple[ChangedSession, ...]:
    """Keep the latest end of each session by (occurred_at, event_id); the sessions that this changed."""
    latest = _latest(rows)
    return await _applied(conn, _APPLY_OUTCOMES, latest, [row.outcome for row in latest])


async def apply_ratings(conn: AsyncConnection, rows: Iterable[SessionRating]) -> tuple[ChangedSession, ...]:
    """Keep the latest rating of each session by (occurred_at, event_id); the sessions that this changed."""
    latest = _latest(rows)
    return await _applied(conn, _APPLY_RATINGS, latest, [row.quality_score for row in latest])


_Happening = TypeVar("_Happening", SessionOutcome, SessionRating)


def _latest(rows: Iterable[_Happening]) -> list[_Happening]:
    """The latest of each session, sessions in the order in which every writer locks them."""
    latest: dict[tuple[UUID, UUID], _Happening] = {}
    for row in sorted(rows, key=lambda row: (row.occurred_at, row.event_id)):
        latest[row.organization_uuid, row.session_uuid] = row
    return [row for _, row in sorted(latest.items())]


async def _applied(
    conn: AsyncConnection,
    statement: Statement,
    rows: Sequence[SessionOutcome] | Sequence[SessionRating],
    values: Sequence[str] | Sequence[float],
) -> tuple[ChangedSession, ...]:
    if not rows:
        return ()
    happened = {
        "values": values,
        "times": [row.occurred_at for row in rows],
        "events": [row.event_id for row in rows],
    }
    changed = await statement.rows(conn, _keys(rows) | happened)
    return tuple(ChangedSession(*row) for row in changed)


def _keys(
    rows: Sequence[LearntSession] | Sequence[SessionOutcome] | Sequence[SessionRating],
) -> dict[str, Any]:
    return {
        "organizations": [row.organization_uuid for row in rows],
        "sessions": [row.session_uuid for row in rows],
        "configs": [row.agent_config_uuid for row in rows],
    }


def _joined(first: LearntSession, then: LearntSession) -> LearntSession:
    if then.agent_config_uuid != first.agent_config_uuid:
        return first
    caller = first if first.caller_kind is not None else then
    return LearntSession(
        organization_uuid=first.organization_uuid,
        session_uuid=first.session_uuid,
        agent_config_uuid=first.agent_config_uuid,
        caller_kind=caller.caller_kind,
        principal_ref=caller.principal_ref,
        task=first.task if first.task is not None else then.task,
    )
