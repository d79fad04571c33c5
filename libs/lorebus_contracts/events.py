"""The events on the bus. Each is made once by whoever causes it; its event_id is reused on every retry.

Golden payloads per topic and version are kept in `tests/contract/golden`; a published version is never edited.
"""

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import Annotated, ClassVar, assert_never
from uuid import UUID

from pydantic import ConfigDict, Field, model_validator

from lorebus_contracts import topics
from lorebus_contracts.arrays import FIRST_FAULTS
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
    SchemaVersion1,
    Score,
    TaskText,
    Timestamp,
    TopK,
    Uuid,
)
from lorebus_contracts.handed_out import HandedOutColumns
from lorebus_contracts.left_out import LeftOut, PassedOverEntry
from lorebus_contracts.wire import WireModel
from lorebus_domain import policy
from lorebus_domain.recall import Strategy
from lorebus_domain.visibility import Actor, Caller, CallerKind, EndUser, NoCaller, resolve_caller


class CallerBody(WireModel):
    """Who a session acts for: `none` (ref null), `end_user` or `actor` with its stable reference."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"properties": {"kind": {"const": "none"}, "ref": {"pattern": r"^\s*$"}}},
                {"properties": {"kind": {"const": "end_user"}}},
                {
                    "properties": {"kind": {"const": "actor"}, "ref": {"type": "string", "pattern": r"\S"}},
                    "required": ["ref"],
                },
            ]
        }
    )

    kind: CallerKind = Field(description="What sort of caller.")
    ref: CallerRef | None = Field(
        default=None, description="Case-sensitive and opaque; blank or null: nobody was identified."
    )

    @model_validator(mode="after")
    def _is_a_caller(self) -> "CallerBody":
        self.resolve()
        return self

    def resolve(self) -> Caller:
        """The caller; a blank ref is no principal."""
        return resolve_caller(self.kind, self.ref)

    def principal_ref(self) -> str | None:
        """Who the caller is; null for `none` and for an end user whom nobody could name."""
        match self.resolve():
            case EndUser(ref) | Actor(ref):
                return ref
            case NoCaller():
                return None

    @classmethod
    def of(cls, caller: Caller) -> "CallerBody":
        """The caller as it goes over the wire."""
        match caller:
            case NoCaller():
                return cls(kind=CallerKind.NONE)
            case EndUser(ref=ref):
                return cls(kind=CallerKind.END_USER, ref=ref)
            case Actor(ref=ref):
                return cls(kind=CallerKind.ACTOR, ref=ref)
            case _:
                assert_never(caller)


class EntryBody(WireModel):
    """One text to remember and how much it matters."""

    text: EntryText = Field(description="What to remember.")
    importance: Importance = Field(
        default=policy.DEFAULT_IMPORTANCE, description="How much it matters; below 0.1 it is not kept."
    )


Entries = Annotated[
    tuple[EntryBody, ...], Field(min_length=1, max_length=policy.MAX_ENTRIES_PER_SAVE), *FIRST_FAULTS
]
"""The entries of one save: 1 to 100 (SPEC.md section 8)."""


class ToolCallBody(WireModel):
    """One call of a tool in a session, in order."""

    tool: Name = Field(description="The tool's name.")
    input: Json = Field(default=None, description="What it was given: any JSON, at most 64 levels deep.")
    output: CleanStr = Field(default="", description="What it answered, whole; a distill cuts it.")
    is_error: Flag = Field(default=False, description="Whether the answer is an error.")


Trace = Annotated[tuple[ToolCallBody, ...], *FIRST_FAULTS]
"""A session's calls of tools, in order."""


class Event(WireModel, ABC):
    """The envelope that every event carries."""

    topic: ClassVar[topics.Topic]

    event_id: Uuid = Field(description="Made once by whoever causes the event, reused on every retry.")
    schema_version: SchemaVersion1 = Field(default=1, description="The version of this form.")
    occurred_at: Timestamp = Field(description="When it happened: RFC 3339 with an offset.")
    organization_uuid: Uuid = Field(description="The tenant.")
    agent_config_uuid: Uuid = Field(description="The agent config that it is about.")

    @abstractmethod
    def key(self) -> bytes:
        """The record's key: what must stay in order stays on one partition."""


class SessionEnded(Event):
    """A session ended. The runtime need not have registered it: all that a distill needs is here.

    `outcome` is `success`, `failed` or any other word for a session that ended otherwise.
    """

    topic = topics.SESSION_ENDED

    session_uuid: Uuid = Field(description="The session that ended.")
    caller: CallerBody = Field(description="Who the session acted for.")
    outcome: Outcome = Field(description="`success`, `failed`, or another word for any other end.")
    task: TaskText = Field(default="", description="What the session was asked to do.")
    step_count: Count = Field(description="How many steps it took; below 2 nothing is distilled.")
    trace: Trace = Field(default=(), description="Its calls of tools in order; a distill takes the last 25.")

    def key(self) -> bytes:
        """Per session."""
        return topics.session_key(self.session_uuid)


class SessionRated(Event):
    """Somebody rated a session; at least 0.5 is a success (SPEC.md section 5, Labels)."""

    topic = topics.SESSION_RATED

    session_uuid: Uuid = Field(description="The session that was rated.")
    quality_score: Score = Field(description="From 0 (bad) to 1 (good).")

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
    """What made a distilled entry: the provider as it names itself, its version, and what a model took for it."""

    provider: Name = Field(description="The model's provider, as it names itself.")
    version: Name = Field(description="Its version.")
    distill_workflow_id: Uuid = Field(description="The distill run that learnt the entries.")
    model: Name | None = Field(
        default=None, description="The model, as the endpoint names it; none for rules."
    )
    prompt_version: Name | None = Field(default=None, description="The version of the prompt it was given.")
    prompt_tokens: Count | None = Field(default=None, description="Tokens sent for the whole session.")
    completion_tokens: Count | None = Field(
        default=None, description="Tokens answered for the whole session."
    )
    milliseconds: Count | None = Field(default=None, description="How long the model took for the session.")


class SaveRequested(Event):
    """Entries to keep for one scope; the run that does it has the event's id.

    `principal_ref` is whose memory this is, resolved by the sender; null is the shared pool.
    """

    topic = topics.SAVE_REQUESTED

    session_uuid: Uuid = Field(description="The session that the entries come from.")
    caller: CallerBody = Field(description="Who that session acts for.")
    principal_ref: PrincipalRef | None = Field(description="Whose memory this is; null is the shared pool.")
    entries: Entries = Field(description="What to keep.")
    origin: Origin = Field(description="Who asked for it.")
    provenance: Provenance | None = Field(default=None, description="What made distilled entries.")

    def key(self) -> bytes:
        """Per scope, so that the saves of one scope meet on one partition."""
        return topics.scope_key(self.agent_config_uuid, self.principal_ref)


class PruneRequested(Event):
    """An agent config to be cut down; without `max_entries` its own cap counts. The run has the event's id."""

    topic = topics.PRUNE_REQUESTED

    max_entries: Count | None = Field(
        default=None, description="What may stay; left out, it is the agent config's cap."
    )

    def key(self) -> bytes:
        """Per agent config."""
        return topics.config_key(self.agent_config_uuid)


class RecalledEntry(WireModel):
    """An entry that was handed out; score parts only where the strategy scores."""

    memory_id: Uuid = Field(description="The memory entry.")
    rank: Annotated[Count, Field(ge=1)] = Field(description="Its place in what was handed out, from 1.")
    score: Score | None = Field(default=None, description="The sum that ranked it.")
    relevance: Score | None = Field(default=None, description="How much of the cue it shares.")
    importance: Importance = Field(description="Its importance at the time.")
    recency: Score | None = Field(default=None, description="1 when new, halved every 30 days.")


class RecallRecorded(Event):
    """What one answered load handed out; the recall, and the run of the load, has the event's id."""

    topic = topics.RECALL_RECORDED

    session_uuid: Uuid = Field(description="The session that the load was for.")
    caller: CallerBody = Field(description="Who that session acts for.")
    requested_strategy: Strategy = Field(description="What was asked for.")
    strategy: Strategy = Field(description="What answered; another one where a strategy is not available.")
    top_k: TopK = Field(description="How many entries were asked for at most.")
    cue: TaskText = Field(default="", description="The text that a ranked recall was made for.")
    pack_id: Uuid | None = Field(default=None, description="The pack's id; null for any other strategy.")
    budget_used_chars: Count = Field(description="Code points of the memory that was handed out.")
    entries: Annotated[tuple[RecalledEntry, ...], *FIRST_FAULTS] = Field(
        description="What was handed out, in its order, where `handed_out` does not tell."
    )
    handed_out: HandedOutColumns | None = Field(
        default=None, description="What was handed out, in its order; `entries` is empty then."
    )
    passed_over: Annotated[tuple[PassedOverEntry, ...], *FIRST_FAULTS] = Field(
        default=(),
        description="Candidates that were left out, in ranking order, where `left_out` does not tell.",
    )
    left_out: LeftOut | None = Field(
        default=None, description="Candidates that were left out, in ranking order."
    )

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

    kind: ChangeKind = Field(description="What happened.")
    ids: tuple[UUID, ...] = Field(description="The entries; the session where recalls were labelled.")
    count: Count = Field(description="How many times it happened.")

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

EVENTS: tuple[type[Event], ...] = (*CONSUMED, MemoryChanged)
"""Everything on the bus, one event a topic."""
