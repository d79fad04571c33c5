"""What events say of sessions, kept once and held against what is known already.

The rule that must not break: a session is of one agent config and, once a runtime registered it, of one caller. An
event that says otherwise is rejected, and nothing is written for it: it would make one caller's session another's.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeAlias
from uuid import UUID

from lorebus_contracts.events import RecallRecorded, SessionEnded, SessionRated
from lorebus_kit.verdicts import UNKNOWN_ORGANIZATION, Rejected
from lorebus_store import sessions
from lorebus_store.database import Connection
from lorebus_store.locks import ConfigPair
from lorebus_store.sessions import KnownSession, LearntSession
from lorebus_store.settings import ScopeSettings

SESSION_MISMATCH: Final = "session_mismatch"
"""Why an event is rejected whose session is another agent config's, or was registered for another caller."""

SessionEvent: TypeAlias = SessionEnded | SessionRated | RecallRecorded
SessionKey: TypeAlias = tuple[UUID, UUID]
"""(organization_uuid, session_uuid)."""


async def refusals(
    connection: Connection,
    events: Sequence[SessionEvent],
    known: Mapping[ConfigPair, ScopeSettings],
    *,
    erased: Collection[UUID] = (),
) -> tuple[Rejected | None, ...]:
    """For each event why nothing may be written for it, or None; of the others, what they tell of sessions is kept.

    Where events are the first to speak of a session, the first of them decides whose it is. For an agent config that
    nobody knows nothing is kept, nor of the events whose ids are `erased`, which are not refused either.
    """
    heard = [
        event for event in events if known[_pair(event)].organization_known and event.event_id not in erased
    ]
    before = await sessions.known(connection, set(map(_key, heard)))
    # A runtime's registration stands, whatever events tell, until an erasure, which waits for the organization's lock.
    open_ones = [event for event in heard if not _is_registered(event, before)]
    telling = [event for event in open_ones if known[_pair(event)].config_known and _fits(event, before)]
    await sessions.learn(connection, map(_learnt, telling))
    after = {**before, **await sessions.known(connection, set(map(_key, open_ones)))}
    return tuple(
        None if event.event_id in erased else _refusal(event, known[_pair(event)], after) for event in events
    )


def _is_registered(event: SessionEvent, known: Mapping[SessionKey, KnownSession]) -> bool:
    session = known.get(_key(event))
    return session is not None and session.is_registered


def _refusal(
    event: SessionEvent, scope: ScopeSettings, known: Mapping[SessionKey, KnownSession]
) -> Rejected | None:
    if not scope.organization_known:
        return Rejected(UNKNOWN_ORGANIZATION)
    return None if _fits(event, known) else Rejected(SESSION_MISMATCH)


def _fits(event: SessionEvent, known: Mapping[SessionKey, KnownSession]) -> bool:
    session = known.get(_key(event))
    if session is None:
        return True
    if session.agent_config_uuid != event.agent_config_uuid:
        return False
    if isinstance(event, SessionRated) or not session.is_registered:
        return True
    told = (event.caller.kind.value, event.caller.principal_ref())
    return told == (session.caller_kind, session.principal_ref)


def _learnt(event: SessionEvent) -> LearntSession:
    return LearntSession(
        organization_uuid=event.organization_uuid,
        session_uuid=event.session_uuid,
        agent_config_uuid=event.agent_config_uuid,
        caller_kind=None if isinstance(event, SessionRated) else event.caller.kind,
        principal_ref=None if isinstance(event, SessionRated) else event.caller.principal_ref(),
        task=event.task if isinstance(event, SessionEnded) else None,
    )


def _key(event: SessionEvent) -> SessionKey:
    return (event.organization_uuid, event.session_uuid)


def _pair(event: SessionEvent) -> ConfigPair:
    return (event.organization_uuid, event.agent_config_uuid)
