"""Late events of what was erased: they are skipped, whoever delivers them and however often.

The rule that must not break: the organizations are locked first, so that an erasure is either done before an event is
looked at, or waits until its effect is committed and then takes that away too.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar
from uuid import UUID

from lorebus_contracts.events import Event, RecallRecorded, SaveRequested, SessionEnded, SessionRated
from lorebus_kit.verdicts import Skipped
from lorebus_store import erasures, locks
from lorebus_store.database import Connection
from lorebus_store.erasing import ERASED
from lorebus_store.erasures import Subject, SubjectKey

EventT = TypeVar("EventT", bound=Event)

SKIPPED: Skipped = Skipped(ERASED)
"""The verdict on such an event."""


async def erased_events(connection: Connection, events: Sequence[EventT]) -> frozenset[UUID]:
    """The ids of those events whose subject was erased after they happened; nothing of them may be kept.

    Called first in a consumer's transaction; the locks are held until its end.
    """
    organizations = {event.organization_uuid for event in events}
    await locks.share_organizations(connection, organizations)
    asked = await erasures.organizations_with_erasures(connection, organizations)
    concerned = [event for event in events if event.organization_uuid in asked]
    subjects = {event.event_id: tuple(_subjects(event)) for event in concerned}
    found = await erasures.markers(connection, {key for keys in subjects.values() for key in keys})
    return frozenset(
        event.event_id
        for event in concerned
        for key in subjects[event.event_id]
        for marker in found.get(key, ())
        if marker.covers(event.agent_config_uuid, event.occurred_at)
    )


def _subjects(event: Event) -> Iterator[SubjectKey]:
    """Whom and what an event is about, as erasures know them."""
    organization = event.organization_uuid
    if isinstance(event, SaveRequested | SessionEnded | SessionRated | RecallRecorded):
        yield organization, Subject.session(event.session_uuid).hashed(organization)
    if isinstance(event, SaveRequested | SessionEnded | RecallRecorded):
        principals = {event.caller.principal_ref()}
        if isinstance(event, SaveRequested):
            principals.add(event.principal_ref)
        for principal in principals - {None}:
            yield organization, Subject.principal(str(principal)).hashed(organization)
