"""What HTTP answers where all went well (SPEC.md section 8); what did not is in `problems.py`."""

from datetime import datetime
from uuid import UUID

from pydantic import Field, JsonValue

from lorebus_contracts.events import CallerBody, PassedOverEntry, RecalledEntry
from lorebus_contracts.http import AgentConfigBody, OrganizationBody
from lorebus_contracts.wire import WireModel
from lorebus_contracts.workflows import State, StateDescriptor, Transition, WorkflowType
from lorebus_domain.labelling import Label
from lorebus_domain.recall import RecallSkip, Strategy


class Accepted(WireModel):
    """A run that is durably accepted; its status is at `/api/workflows/{workflow_id}`."""

    workflow_id: UUID


class EventAccepted(WireModel):
    """An event that is durably accepted."""

    event_id: UUID
    workflow_id: UUID | None = Field(
        default=None, description="The distill that the end of a session starts."
    )


class Explanation(WireModel):
    """Everything a recall came by: what was handed out with its score parts, and why the rest was not."""

    entries: tuple[RecalledEntry, ...]
    passed_over: tuple[PassedOverEntry, ...]


class LoadAnswer(WireModel):
    """The memory for a session. Without memory `skipped_reason` says why, and no recall is recorded."""

    memory: str = Field(description="To be put into the prompt as it is; empty when there is nothing.")
    count: int = Field(ge=0)
    pack_id: UUID | None = Field(default=None, description="Only for `pack`.")
    recall_id: UUID | None = None
    requested_strategy: Strategy
    strategy: Strategy = Field(description="The one that answered.")
    fallback_reason: str | None = None
    skipped_reason: RecallSkip | None = None
    explanation: Explanation | None = None


class SessionAnswer(WireModel):
    """A registered session with its token; `recall` only where it was asked for."""

    session_uuid: UUID
    token: str
    expires_at: datetime
    recall: LoadAnswer | None = None


class MemoryItem(WireModel):
    """One entry as its organization sees it."""

    id: UUID
    agent_config_uuid: UUID
    principal_ref: str | None
    text: str
    importance: float
    reinforcement_count: int
    access_count: int
    created_at: datetime
    updated_at: datetime


class MemoryPage(WireModel):
    """A page of entries; `total` counts all that match."""

    items: tuple[MemoryItem, ...]
    page: int
    per_page: int
    total: int
    has_more: bool


class RunSnapshot(WireModel):
    """How a run is now; `state_data` has its inputs and, as far as it has come, its outputs by name."""

    workflow_id: UUID
    workflow_type: WorkflowType
    state_name: State
    is_terminal: bool
    state_data: dict[str, JsonValue]
    created_at: datetime
    updated_at: datetime


class RunStep(WireModel):
    """A state that a run has come to."""

    state_name: State
    at: datetime
    data: JsonValue = None


class RunHistory(WireModel):
    """All that happened to a run, oldest first."""

    workflow_id: UUID
    history: tuple[RunStep, ...]


class WorkflowSummary(WireModel):
    """A workflow type in the list of types."""

    name: WorkflowType
    description: str
    kind: str
    library: str
    version: str


class WorkflowTypes(WireModel):
    """All workflow types."""

    types: tuple[WorkflowSummary, ...]


class WorkflowSchema(WorkflowSummary):
    """A workflow type in full; `input` and `output` are JSON Schemas made from the models that validate."""

    triggers: dict[str, tuple[str, ...]]
    input: dict[str, JsonValue]
    output: dict[str, JsonValue]
    states: tuple[StateDescriptor, ...]
    transitions: tuple[Transition, ...]


class AgentConfigAnswer(AgentConfigBody):
    """An agent config's settings as they are in force."""

    agent_config_uuid: UUID


class OrganizationAnswer(OrganizationBody):
    """An organization's settings as they are in force."""

    organization_uuid: UUID


class HandedOutEntry(RecalledEntry):
    """An entry that was handed out, with its text as long as it is there."""

    text: str | None


class Receipt(WireModel):
    """Exactly what a recall handed out and left out, and what became of its session."""

    recall_id: UUID
    pack_id: UUID | None
    agent_config_uuid: UUID
    session_uuid: UUID
    caller: CallerBody
    requested_strategy: Strategy
    strategy: Strategy
    top_k: int
    cue: str
    budget_used_chars: int
    recalled_at: datetime
    label: Label | None
    entries: tuple[HandedOutEntry, ...]
    passed_over: tuple[PassedOverEntry, ...]
