"""What a session runtime that does not speak Kafka tells over HTTP: a session begins, has ended, was rated.

The rule that must not break: a session's scope is what it was registered with. Neither the end nor a rating names an
agent config or a caller, and a second registration that says otherwise is refused.
"""

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID, uuid4

from lorebus_contracts.events import CallerBody, SessionEnded, SessionRated
from lorebus_contracts.http import EndBody, RateBody, RegisterBody
from lorebus_gateway.errors import ConflictError
from lorebus_gateway.idempotency import Once
from lorebus_gateway.known_scopes import caller_of, claims_of, find_session, require_agent_config
from lorebus_gateway.session_ends import SessionEnds
from lorebus_kit.acceptance import Acceptor
from lorebus_kit.tokens import SessionClaims, SessionTokens
from lorebus_store import sessions
from lorebus_store.acting import Tenants
from lorebus_store.database import Database
from lorebus_store.errors import TransientError
from lorebus_store.sessions import Session

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RegisteredSession:
    """A session that may begin, with its token."""

    claims: SessionClaims
    token: str
    expires_at: datetime


class RuntimeSessions:
    """Registers sessions and has their ends and ratings accepted as events."""

    def __init__(
        self, database: Database, acceptor: Acceptor, tokens: SessionTokens, ends: SessionEnds
    ) -> None:
        self._database = database
        self._acceptor = acceptor
        self._tokens = tokens
        self._ends = ends

    async def register(
        self, organization_uuid: UUID, body: RegisterBody, *, now: datetime, once: Once | None = None
    ) -> RegisteredSession:
        """Register a session and mint its token; the same again gives another token for the same session.

        Where the runtime names no session, a repeat of `once` is the same one.

        Raises:
            NotFoundError: the agent config is not known.
            ConflictError: the session is registered with another agent config or caller.
            TransientError: the database is away.
        """
        session_uuid = body.session_uuid or (uuid4() if once is None else once.uuid("session"))
        claims = claims_of(await self._kept(organization_uuid, session_uuid, body))
        token, expires_at = self._tokens.mint(claims, now=now)
        return RegisteredSession(claims, token, expires_at)

    def token_again(
        self, organization_uuid: UUID, session_uuid: UUID, body: RegisterBody, *, expires_at: datetime
    ) -> str:
        """The token that the session was registered with; it is not kept anywhere, but made once more."""
        claims = SessionClaims(organization_uuid, body.agent_config_uuid, session_uuid, body.caller.resolve())
        return self._tokens.mint(claims, now=expires_at - self._tokens.lifetime)[0]

    async def end(
        self,
        organization_uuid: UUID,
        session_uuid: UUID,
        body: EndBody,
        *,
        now: datetime,
        once: Once | None = None,
    ) -> SessionEnded:
        """Have it accepted that the session ended.

        Raises:
            NotFoundError: the organization has no such session.
            TransientError: the database is away, or neither bus nor store took the event.
        """
        session = await self._known(organization_uuid, session_uuid)
        event = SessionEnded(
            event_id=body.event_id or _event_id(once),
            occurred_at=body.occurred_at or now,
            organization_uuid=organization_uuid,
            agent_config_uuid=session.agent_config_uuid,
            session_uuid=session_uuid,
            caller=CallerBody.of(caller_of(session)),
            outcome=body.outcome,
            task=(session.task or "") if body.task is None else body.task,
            step_count=body.step_count,
            trace=body.trace,
        )
        await self._acceptor.accept(event)
        self._ends.note(organization_uuid, session_uuid, event.occurred_at)
        await self._show_distill(event)
        return event

    async def rate(
        self,
        organization_uuid: UUID,
        session_uuid: UUID,
        body: RateBody,
        *,
        now: datetime,
        once: Once | None = None,
    ) -> SessionRated:
        """Have it accepted that somebody rated the session.

        Raises:
            NotFoundError, TransientError: as `end`.
        """
        session = await self._known(organization_uuid, session_uuid)
        event = SessionRated(
            event_id=body.event_id or _event_id(once),
            occurred_at=body.occurred_at or now,
            organization_uuid=organization_uuid,
            agent_config_uuid=session.agent_config_uuid,
            session_uuid=session_uuid,
            quality_score=body.quality_score,
        )
        await self._acceptor.accept(event)
        return event

    async def _known(self, organization_uuid: UUID, session_uuid: UUID) -> Session:
        async with self._database.read(Tenants.of(organization_uuid)) as connection:
            return await find_session(connection, organization_uuid, session_uuid)

    async def _kept(self, organization_uuid: UUID, session_uuid: UUID, body: RegisterBody) -> Session:
        caller = body.caller.resolve()
        told = CallerBody.of(caller)
        async with self._database.begin(Tenants.of(organization_uuid)) as connection:
            await require_agent_config(connection, organization_uuid, body.agent_config_uuid)
            session = await sessions.register(
                connection,
                organization_uuid=organization_uuid,
                session_uuid=session_uuid,
                agent_config_uuid=body.agent_config_uuid,
                caller_kind=told.kind,
                principal_ref=told.ref,
                task=body.task,
            )
        if session.agent_config_uuid != body.agent_config_uuid or caller_of(session) != caller:
            raise ConflictError
        return session

    async def _show_distill(self, event: SessionEnded) -> None:
        """Let the distill's run be seen from now on; should that fail, its consumer shows it."""
        try:
            await self._acceptor.note_run(event)
        except TransientError as error:
            _log.info("distill run not shown yet", extra={"error_text": str(error)})


def _event_id(once: Once | None) -> UUID:
    return uuid4() if once is None else once.uuid("event")
