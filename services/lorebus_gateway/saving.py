"""Asking for entries to be kept, and for an agent config to be cut down: both are runs that a consumer carries out.

The rule that must not break: whose memory it will be is decided here, from the session's caller, and the answer is
given only when the request is durable.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from lorebus_contracts.events import CallerBody, EntryBody, Event, Origin, PruneRequested, SaveRequested
from lorebus_contracts.workflows import WorkflowType
from lorebus_domain.visibility import NoCaller, write_scope
from lorebus_gateway.errors import ForbiddenError
from lorebus_gateway.idempotency import Once
from lorebus_gateway.known_scopes import require_agent_config
from lorebus_gateway.run_noter import RunNoter
from lorebus_kit.acceptance import Acceptor
from lorebus_kit.run_ids import RunIds, run_id_of_request, to_milliseconds
from lorebus_kit.tokens import SessionClaims
from lorebus_store.acting import Tenants
from lorebus_store.database import Database


class Saving:
    """Has saves and prunes accepted; the run has the id of the event that is given back.

    `once` is the request's `Idempotency-Key`: each repeat of the request is then the same event.
    """

    def __init__(self, database: Database, acceptor: Acceptor, run_ids: RunIds, noter: RunNoter) -> None:
        self._database = database
        self._acceptor = acceptor
        self._run_ids = run_ids
        self._noter = noter

    async def save(
        self,
        session: SessionClaims,
        entries: Sequence[EntryBody],
        *,
        origin: Origin,
        now: datetime,
        principal_ref: str | None = None,
        once: Once | None = None,
    ) -> SaveRequested:
        """Have entries kept for the session's own caller, or for the principal that a caller of kind `none` names.

        Raises:
            ForbiddenError: the principal named is not the session's own.
            TransientError: neither the bus nor the store took it.
        """
        event = SaveRequested(
            event_id=self._run_id(session.organization_uuid, WorkflowType.MEMORY_SAVE, now, once),
            occurred_at=to_milliseconds(now),
            organization_uuid=session.organization_uuid,
            agent_config_uuid=session.agent_config_uuid,
            session_uuid=session.session_uuid,
            caller=CallerBody.of(session.caller),
            principal_ref=_principal(session, principal_ref),
            entries=tuple(entries),
            origin=origin,
        )
        await self._accept(event, once)
        return event

    async def prune(
        self,
        organization_uuid: UUID,
        agent_config_uuid: UUID,
        *,
        max_entries: int | None,
        now: datetime,
        once: Once | None = None,
    ) -> PruneRequested:
        """Have an agent config cut down to `max_entries`, or to its own cap.

        Raises:
            NotFoundError: the organization has no such config.
            TransientError: the database is away, or neither the bus nor the store took it.
        """
        async with self._database.read(Tenants.of(organization_uuid)) as connection:
            await require_agent_config(connection, organization_uuid, agent_config_uuid)
        event = PruneRequested(
            event_id=self._run_id(organization_uuid, WorkflowType.MEMORY_PRUNE, now, once),
            occurred_at=to_milliseconds(now),
            organization_uuid=organization_uuid,
            agent_config_uuid=agent_config_uuid,
            max_entries=max_entries,
        )
        await self._accept(event, once)
        return event

    def _run_id(self, organization_uuid: UUID, kind: WorkflowType, now: datetime, once: Once | None) -> UUID:
        if once is None:
            return self._run_ids.make(organization_uuid, kind, now=now)
        return run_id_of_request(organization_uuid, kind, once.digest)

    async def _accept(self, event: Event, once: Once | None) -> None:
        await self._acceptor.accept(event)
        if once is not None:
            # Such an id is not recognised as one that was given out, so its run is shown by a row.
            await self._noter.note(event, now=once.is_kept)


def _principal(session: SessionClaims, named: str | None) -> str | None:
    """Whose memory it will be; an unidentified end user's save is accepted, and skipped when it is run."""
    own = write_scope(session.caller)
    own_ref = None if own is None else own.principal_ref
    if named is None or named == own_ref:
        return own_ref
    if isinstance(session.caller, NoCaller):
        return named
    raise ForbiddenError
