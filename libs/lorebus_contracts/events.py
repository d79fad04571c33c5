"""The events on the bus. Each is made once by whoever causes it; its event_id is reused on every retry.

Golden payloads per topic and version are kept in `tests/contract/golden`; a published version is never edited.
"""

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import Annotated, ClassVar, Literal
from uuid import UUID

from pydantic import Field, model_validator

from lorebus_contracts import topics
from lorebus_contracts.fields import (
    CallerRef,
    CleanStr,
    Count,
    EntryText,
    Flag,
    Importance,
    Json,
    Name,
    Outcome,
    PrincipalRef,
    TaskText,
    Timestamp,
    TopK,
    Uuid,
)
from lorebus_contracts.wire import WireModel
from lorebus_domain import policy
from lorebus_domain.ranking import PassReason
from lorebus_domain.recall import Strategy
from lorebus_domain.visibility import Caller, CallerKind, resolve_caller

Score = Annotated[float, Field(strict=True, ge=0.0, le=1.0, allow_inf_nan=False)]


class CallerBody(WireModel):
    """Who a session acts for: `none` (ref null), `end_user` or `actor` with its stable reference."""

    kind: CallerKind
    ref: CallerRef | None = None

    @model_validator(mode="after")
    def _is_a_caller(self) -> "CallerBody":
        self.resolve()
        return self

    def resolve(self) -> Caller:
        """The caller; a blank ref is no principal."""
        return resolve_caller(self.kind, self.ref)


class EntryBody(WireModel):
    """One text to remember and how much it matters."""

    text: EntryText
    importance: Importance = policy.DEFAULT_IMPORTANCE


class ToolCallBody(WireModel):
    """One call of a tool in a session, in order."""

    tool: Name
    input: Json = None
    output: CleanStr = ""
    is_error: Flag = False


class Event(WireModel, ABC):
    """The envelope that every event carries."""

    topic: ClassVar[topics.Topic]

    event_id: Uuid
    schema_version: Literal[1] = 1
    occurred_at: Timestamp
    organization_uuid: Uuid
    agent_config_uuid: Uuid

    @abstractmethod
    def key(self) -> bytes:
        """The record's key: what must stay in order stays on one partition."""


class SessionEnded(Event):
    """A session ended. The runtime need not have registered it: all that a distill needs is here.

    `outcome` is `success`, `failed` or any other word for a session that ended otherwise.
    """

    topic = topics.SESSION_ENDED

    session_uuid: Uuid
    caller: CallerBody
    outcome: Outcome
    task: TaskText = ""
    step_count: Count
    trace: tuple[ToolCallBody, ...] = ()

    def key(self) -> bytes:
        """Per session."""
        return topics.session_key(self.session_uuid)


class SessionRated(Event):
    """Somebody rated a session; at least 0.5 is a success (SPEC.md section 5, Labels)."""

    topic = topics.SESSION_RATED

    session_uuid: Uuid
    quality_score: Score

    def key(self) -> bytes:
        """Per session."""
        return topics.session_key(self.session_uuid)


class Origin(StrEnum):
    """Where an entry came from."""

    RUNNER = "runner"
    DISTILL = "distill"
    WORKFLOW = "workflow"
    IMPORT = "import"


class Provenance(WireModel):
    """What made a distilled entry: the provider as it names itself, and its version."""

    provider: Name
    version: Name
    distill_workflow_id: Uuid


class SaveRequested(Event):
    """Entries to keep for one scope; the run that does it has the event's id.

    `principal_ref` is whose memory this is, resolved by the sender; null is the shared pool.
    """

    topic = topics.SAVE_REQUESTED

    session_uuid: Uuid
    caller: CallerBody
    principal_ref: PrincipalRef | None
    entries: Annotated[tuple[EntryBody, ...], Field(min_length=1, max_length=policy.MAX_ENTRIES_PER_SAVE)]
    origin: Origin
    provenance: Provenance | None = None

    def key(self) -> bytes:
        """Per scope, so that the saves of one scope meet on one partition."""
        return topics.scope_key(self.agent_config_uuid, self.principal_ref)


class PruneRequested(Event):
    """An agent config to be cut down; without `max_entries` its own cap counts. The run has the event's id."""

    topic = topics.PRUNE_REQUESTED

    max_entries: Count | None = None

    def key(self) -> bytes:
        """Per agent config."""
        return topics.config_key(self.agent_config_uuid)


class RecalledEntry(WireModel):
    """An entry that was handed out; score parts only where the strategy scores."""

    memory_id: Uuid
    rank: Annotated[Count, Field(ge=1)]
    score: Score | None = None
    relevance: Score | None = None
    importance: Importance
    recency: Score | None = None


class PassedOverEntry(WireModel):
    """A candidate that was left out, and why."""

    memory_id: Uuid
    reason: PassReason
    score: Score
    relevance: Score
    importance: Importance
    recency: Score


class RecallRecorded(Event):
    """What one answered load handed out; the recall, and the run of the load, has the event's id."""

    topic = topics.RECALL_RECORDED

    session_uuid: Uuid
    caller: CallerBody
    requested_strategy: Strategy
    strategy: Strategy
    top_k: TopK
    cue: TaskText = ""
    pack_id: Uuid | None = None
    budget_used_chars: Count
    entries: tuple[RecalledEntry, ...]
    passed_over: tuple[PassedOverEntry, ...] = ()

    def key(self) -> bytes:
        """Per session."""
        return topics.session_key(self.session_uuid)


class ChangeKind(StrEnum):
    """What happened to memories or recalls."""

    SAVED = "saved"
    REINFORCED = "reinforced"
    DELETED = "deleted"
    PRUNED = "pruned"
    LABELLED = "labelled"


class MemoryChanged(Event):
    """What changed, folded per batch, agent config and kind; ids of entries (of the session if labelled)."""

    topic = topics.MEMORY_CHANGED

    kind: ChangeKind
    ids: tuple[UUID, ...]
    count: Count

    def key(self) -> bytes:
        """Per agent config."""
        return topics.config_key(self.agent_config_uuid)


CONSUMED: tuple[type[Event], ...] = (
    SessionEnded,
    SessionRated,
    SaveRequested,
    PruneRequested,
    RecallRecorded,
)
"""What the consumers read."""
