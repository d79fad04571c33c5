"""Sound events for tests: whatever a test does not say is ordinary."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID, uuid4

from lorebus_contracts.events import (
    CallerBody,
    EntryBody,
    Origin,
    PruneRequested,
    RecalledEntry,
    RecallRecorded,
    SaveRequested,
    SessionEnded,
    SessionRated,
    ToolCallBody,
)
from lorebus_domain.recall import Strategy
from lorebus_domain.visibility import CallerKind
from tests.support.outputs import CANARY

NOBODY: Final = CallerBody(kind=CallerKind.NONE)
UNIDENTIFIED: Final = CallerBody(kind=CallerKind.END_USER)
ONE_CALL: Final = (ToolCallBody(tool="find_flight", input={"to": "LIS"}, output=f"found {CANARY}"),)
"""A trace that the built-in rules learn nothing from."""


@dataclass(frozen=True, slots=True)
class Scope:
    """An organization and one of its agent configs."""

    organization_uuid: UUID
    agent_config_uuid: UUID

    @property
    def pair(self) -> tuple[UUID, UUID]:
        """As the store names it."""
        return (self.organization_uuid, self.agent_config_uuid)


def new_scope() -> Scope:
    """A scope that nobody knows yet."""
    return Scope(uuid4(), uuid4())


def end_user(ref: str) -> CallerBody:
    """An identified end user."""
    return CallerBody(kind=CallerKind.END_USER, ref=ref)


def actor(ref: str) -> CallerBody:
    """A member of staff."""
    return CallerBody(kind=CallerKind.ACTOR, ref=ref)


def entry(text: str, importance: float = 0.5) -> EntryBody:
    """One entry of a save."""
    return EntryBody(text=text, importance=importance)


def save(
    scope: Scope,
    *entries: EntryBody | str,
    caller: CallerBody = NOBODY,
    event_id: UUID | None = None,
    session_uuid: UUID | None = None,
) -> SaveRequested:
    """A save of these entries as the gateway sends it."""
    return SaveRequested(
        event_id=event_id or uuid4(),
        occurred_at=datetime.now(UTC),
        organization_uuid=scope.organization_uuid,
        agent_config_uuid=scope.agent_config_uuid,
        session_uuid=session_uuid or uuid4(),
        caller=caller,
        principal_ref=caller.principal_ref(),
        entries=tuple(entry(item) if isinstance(item, str) else item for item in entries),
        origin=Origin.RUNNER,
    )


def ended(
    scope: Scope,
    *,
    outcome: str = "success",
    caller: CallerBody = NOBODY,
    session_uuid: UUID | None = None,
    event_id: UUID | None = None,
    occurred_at: datetime | None = None,
    step_count: int = 4,
    task: str = f"book a flight {CANARY}",
    trace: Sequence[ToolCallBody] = ONE_CALL,
) -> SessionEnded:
    """A session that ended."""
    return SessionEnded(
        event_id=event_id or uuid4(),
        occurred_at=occurred_at or datetime.now(UTC),
        organization_uuid=scope.organization_uuid,
        agent_config_uuid=scope.agent_config_uuid,
        session_uuid=session_uuid or uuid4(),
        caller=caller,
        outcome=outcome,
        step_count=step_count,
        task=task,
        trace=tuple(trace),
    )


def rated(
    scope: Scope,
    quality_score: float,
    *,
    session_uuid: UUID,
    event_id: UUID | None = None,
    occurred_at: datetime | None = None,
) -> SessionRated:
    """A session that somebody rated."""
    return SessionRated(
        event_id=event_id or uuid4(),
        occurred_at=occurred_at or datetime.now(UTC),
        organization_uuid=scope.organization_uuid,
        agent_config_uuid=scope.agent_config_uuid,
        session_uuid=session_uuid,
        quality_score=quality_score,
    )


def recalled(
    scope: Scope,
    memory_ids: Sequence[UUID],
    *,
    session_uuid: UUID | None = None,
    caller: CallerBody = NOBODY,
    event_id: UUID | None = None,
) -> RecallRecorded:
    """A load that handed out these entries, in their order."""
    return RecallRecorded(
        event_id=event_id or uuid4(),
        occurred_at=datetime.now(UTC),
        organization_uuid=scope.organization_uuid,
        agent_config_uuid=scope.agent_config_uuid,
        session_uuid=session_uuid or uuid4(),
        caller=caller,
        requested_strategy=Strategy.LAST_K,
        strategy=Strategy.LAST_K,
        top_k=10,
        budget_used_chars=0,
        entries=tuple(
            RecalledEntry(memory_id=memory_id, rank=rank, importance=0.5)
            for rank, memory_id in enumerate(memory_ids, start=1)
        ),
    )


def prune(scope: Scope, max_entries: int | None = None, *, event_id: UUID | None = None) -> PruneRequested:
    """A request to cut an agent config down."""
    return PruneRequested(
        event_id=event_id or uuid4(),
        occurred_at=datetime.now(UTC),
        organization_uuid=scope.organization_uuid,
        agent_config_uuid=scope.agent_config_uuid,
        max_entries=max_entries,
    )
