"""Agent configs and sessions that are known: configs that somebody set up, sessions registered or learnt from an event.

The rule that must not break: both are found only within their organization, a session only within its agent config, and
one whose caller nobody has told is an end user whom nobody could identify (SPEC.md section 6: fail closed).
"""

from uuid import UUID

from lorebus_domain.visibility import Caller, CallerKind, EndUser, resolve_caller
from lorebus_gateway.errors import NotFoundError
from lorebus_kit.tokens import SessionClaims
from lorebus_store import sessions, settings
from lorebus_store.database import Connection
from lorebus_store.sessions import Session


async def require_agent_config(
    connection: Connection, organization_uuid: UUID, agent_config_uuid: UUID
) -> None:
    """Do nothing if the organization has this agent config.

    Raises:
        NotFoundError: it has not.
    """
    if await settings.get_agent_config(connection, organization_uuid, agent_config_uuid) is None:
        raise NotFoundError


async def find_session(connection: Connection, organization_uuid: UUID, session_uuid: UUID) -> Session:
    """The organization's session, registered or learnt.

    Raises:
        NotFoundError: it has no such session.
    """
    session = await sessions.get(connection, organization_uuid, session_uuid)
    if session is None:
        raise NotFoundError
    return session


async def find_session_of_config(
    connection: Connection, organization_uuid: UUID, agent_config_uuid: UUID, session_uuid: UUID
) -> Session:
    """The agent config's session, registered or learnt.

    Raises:
        NotFoundError: it has no such session.
    """
    session = await find_session(connection, organization_uuid, session_uuid)
    if session.agent_config_uuid != agent_config_uuid:
        raise NotFoundError
    return session


def claims_of(session: Session) -> SessionClaims:
    """What the session's token would fix."""
    return SessionClaims(
        session.organization_uuid, session.agent_config_uuid, session.session_uuid, caller_of(session)
    )


def caller_of(session: Session) -> Caller:
    """Who the session acts for."""
    if session.caller_kind is None:
        return EndUser(None)
    return resolve_caller(CallerKind(session.caller_kind), session.principal_ref)
