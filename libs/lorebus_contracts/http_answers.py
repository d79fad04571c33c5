"""What HTTP answers where all went well (SPEC.md section 8); what did not is in `problems.py`."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field, JsonValue

from lorebus_contracts.events import CallerBody, Origin, RecalledEntry
from lorebus_contracts.http import AgentConfigBody, OrganizationBody
from lorebus_contracts.left_out import PassedOverEntry
from lorebus_contracts.wire import WireModel
from lorebus_contracts.workflows import State, StateDescriptor, Transition, WorkflowType
from lorebus_domain.key_scope import KeyScope
from lorebus_domain.labelling import Label, LabelSource, NoLabel
from lorebus_domain.quarantine import EntryState
from lorebus_domain.recall import RecallSkip, Strategy


class Accepted(WireModel):
    """A run that is durably accepted; its status is at `/api/workflows/{workflow_id}`."""

    workflow_id: UUID = Field(description="The run to ask after.")


class EventAccepted(WireModel):
    """An event that is durably accepted."""

    event_id: UUID = Field(description="The client's own, or one made here.")
    workflow_id: UUID | None = Field(
        default=None, description="The distill that the end of a session starts."
    )


class Explanation(WireModel):
    """Everything a recall came by: what was handed out with its score parts, and why the rest was not."""

    entries: tuple[RecalledEntry, ...] = Field(description="What was handed out, in its order.")
    passed_over: tuple[PassedOverEntry, ...] = Field(description="Candidates left out, in ranking order.")


class LoadAnswer(WireModel):
    """The memory for a session. Without memory `skipped_reason` says why, and no recall is recorded."""

    memory: str = Field(
        description="To be put into the prompt as it is; empty (`[]` as `json`) when there is nothing."
    )
    count: int = Field(ge=0, description="How many entries it holds.")
    pack_id: UUID | None = Field(default=None, description="Only for `pack`.")
    recall_id: UUID | None = Field(default=None, description="What its receipt and its run are found by.")
    requested_strategy: Strategy = Field(description="The one that was asked for, or is the agent config's.")
    strategy: Strategy = Field(description="The one that answered.")
    fallback_reason: str | None = Field(default=None, description="Why another strategy answered.")
    skipped_reason: RecallSkip | None = Field(default=None, description="Why there is no memory.")
    explanation: Explanation | None = Field(default=None, description="Only with `explain`.")


class SessionAnswer(WireModel):
    """A registered session with its token; `recall` only where it was asked for."""

    session_uuid: UUID = Field(description="The session.")
    token: str = Field(description="For `Authorization: Agent`; it opens this session and nothing else.")
    expires_at: datetime = Field(description="From then on the token is no good.")
    recall: LoadAnswer | None = Field(default=None, description="The launch recall.")


class MemoryItem(WireModel):
    """One entry as its organization sees it."""

    id: UUID = Field(description="The entry.")
    agent_config_uuid: UUID = Field(description="The agent config that owns it.")
    principal_ref: str | None = Field(description="Whose memory it is; null: the shared pool.")
    text: str = Field(description="What is remembered.")
    importance: float = Field(description="From 0 to 1.")
    reinforcement_count: int = Field(description="How often it was saved again.")
    echo_count: int = Field(
        description="How many of its saves were of a lesson that its own session had recalled."
    )
    access_count: int = Field(description="How often it was handed out.")
    origin: Origin = Field(description="Where it came from.")
    session_uuid: UUID | None = Field(
        description="The session that saved it first; null if that is not known (any more)."
    )
    provenance: dict[str, JsonValue] | None = Field(
        description="What distilled it: provider, model and prompt with their versions; null if nobody did."
    )
    created_at: datetime = Field(description="When it was first saved.")
    updated_at: datetime = Field(description="When it was last saved.")
    state: EntryState = Field(description="`active`, or `quarantined`: held back and never recalled.")
    held_for: str | None = Field(description="Why it is, or was, held back; null if it never was.")


class MemoryPage(WireModel):
    """A page of entries; `total` counts all that match."""

    items: tuple[MemoryItem, ...] = Field(description="The entries of this page.")
    page: int = Field(description="Which page this is, from 1.")
    per_page: int = Field(description="Entries a page.")
    total: int = Field(description="Entries of all pages.")
    has_more: bool = Field(description="Whether there is a page after this one.")


class LowEntry(WireModel):
    """An entry that a prune would take."""

    id: UUID = Field(description="The entry.")
    principal_ref: str | None = Field(description="Whose memory it is; null: the shared pool.")
    text: str = Field(description="What is remembered.")
    importance: float = Field(description="From 0 to 1.")
    created_at: datetime = Field(description="When it was first saved.")


class PrunePreview(WireModel):
    """What a prune would do now; nothing was touched."""

    agent_config_uuid: UUID = Field(description="The agent config.")
    max_entries: int = Field(description="How many entries it would be cut down to.")
    would_delete: int = Field(description="Entries that would go.")
    would_remain: int = Field(description="Entries that would be left.")
    first: tuple[LowEntry, ...] = Field(description="The first that would go, in their order; at most 100.")


class RunSnapshot(WireModel):
    """How a run is now; `state_data` has its inputs and, as far as it has come, its outputs by name."""

    workflow_id: UUID = Field(description="The run.")
    workflow_type: WorkflowType = Field(description="What it is a run of.")
    state_name: State = Field(description="Where it is.")
    is_terminal: bool = Field(description="Whether it has ended.")
    state_data: dict[str, JsonValue] = Field(
        description="Inputs and outputs by name; how it failed, if it did."
    )
    created_at: datetime = Field(description="When it was accepted.")
    updated_at: datetime = Field(description="When it last changed.")


class RunStep(WireModel):
    """A state that a run has come to."""

    state_name: State = Field(description="The state.")
    at: datetime = Field(description="When it came to it.")
    data: JsonValue = Field(default=None, description="What there is to say of it.")


class RunHistory(WireModel):
    """All that happened to a run, oldest first."""

    workflow_id: UUID = Field(description="The run.")
    history: tuple[RunStep, ...] = Field(description="Its steps.")


class RunList(WireModel):
    """Runs, newest first."""

    runs: tuple[RunSnapshot, ...] = Field(description="Each as it is now.")


class WorkflowSummary(WireModel):
    """A workflow type in the list of types."""

    name: WorkflowType = Field(description="The type's name, by which it is started.")
    description: str = Field(description="What a run of it does.")
    kind: str = Field(description="How its states follow each other.")
    library: str = Field(description="The library it belongs to.")
    version: str = Field(description="The version of the type.")


class WorkflowTypes(WireModel):
    """All workflow types."""

    types: tuple[WorkflowSummary, ...] = Field(description="One for each type.")


class WorkflowSchema(WorkflowSummary):
    """A workflow type in full; `input` and `output` are JSON Schemas made from the models that validate."""

    triggers: dict[str, tuple[str, ...]] = Field(description="What starts it besides an API call.")
    input: dict[str, JsonValue] = Field(description="The JSON Schema of its inputs.")
    output: dict[str, JsonValue] = Field(description="The JSON Schema of its outputs.")
    states: tuple[StateDescriptor, ...] = Field(description="Its states with their flags.")
    transitions: tuple[Transition, ...] = Field(description="The steps between them.")


class WhoAmI(WireModel):
    """Whom the credentials shown are for, and so what they reach."""

    kind: Literal["organization", "session"] = Field(
        description="`organization` by an API key, `session` by a session token."
    )
    organization_uuid: UUID = Field(description="The tenant.")
    scopes: tuple[KeyScope, ...] | None = Field(
        default=None, description="What the API key may be used for: `read`, `write`, `admin`."
    )
    agent_config_uuid: UUID | None = Field(default=None, description="Of a session.")
    session_uuid: UUID | None = Field(default=None, description="Of a session.")
    caller: CallerBody | None = Field(default=None, description="Who the session acts for.")


class AgentConfigAnswer(AgentConfigBody):
    """An agent config's settings as they are in force."""

    agent_config_uuid: UUID = Field(description="The agent config.")


class OrganizationAnswer(OrganizationBody):
    """An organization's settings as they are in force."""

    organization_uuid: UUID = Field(description="The organization.")


class HandedOutEntry(RecalledEntry):
    """An entry that was handed out, with its text as long as it is there."""

    text: str | None = Field(description="Null when the entry is gone since.")


class Receipt(WireModel):
    """Exactly what a recall handed out and left out, and what became of its session."""

    recall_id: UUID = Field(description="The recall.")
    pack_id: UUID | None = Field(description="The pack; null for any other strategy.")
    agent_config_uuid: UUID = Field(description="The agent config it was recalled from.")
    session_uuid: UUID = Field(description="The session it was recalled for.")
    caller: CallerBody = Field(description="Who that session acts for.")
    requested_strategy: Strategy = Field(description="The strategy that was asked for.")
    strategy: Strategy = Field(description="The one that answered.")
    top_k: int = Field(description="How many entries were asked for at most.")
    cue: str = Field(description="The text it was ranked for.")
    budget_used_chars: int = Field(description="Code points of the memory.")
    recalled_at: datetime = Field(description="When it was answered.")
    label: Label | None = Field(description="What became of the session; null while nobody has said.")
    label_source: LabelSource | None = Field(
        description="What says so: the session's end, or a rating of it."
    )
    rating: float | None = Field(description="The `quality_score`, from 0 to 1; null while nobody has rated.")
    unlabelled_reason: NoLabel | None = Field(
        description="Why there is no label: the session has not ended, or neither `success` nor `failed`."
    )
    entries: tuple[HandedOutEntry, ...] = Field(description="What was handed out, in its order.")
    passed_over: tuple[PassedOverEntry, ...] = Field(description="Candidates left out, in ranking order.")
