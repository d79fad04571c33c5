"""The four workflow types (SPEC.md section 2); their schemas are generated from the models that validate."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pydantic import Field

from lorebus_contracts.events import Entries
from lorebus_contracts.fields import Count, MemoryFormat, PrincipalRef, TaskText, TopK, Uuid
from lorebus_contracts.wire import WireModel
from lorebus_domain.recall import Strategy
from lorebus_domain.recall_format import RecallFormat

VERSION: Final = "1.0"
KIND: Final = "linear"
LIBRARY: Final = "App-agents"
TRIGGERS: Final[Mapping[str, tuple[str, ...]]] = {
    "internal": ("internal.invocation",),
}


class WorkflowType(StrEnum):
    """The names by which runs are started and told apart."""

    MEMORY_LOAD = "agents.memory-load"
    MEMORY_DISTILL = "agents.memory-distill"
    MEMORY_SAVE = "agents.memory-save"
    MEMORY_PRUNE = "agents.memory-prune"


class State(StrEnum):
    """All four types are linear: initiated, run, completed; any may fail."""

    INITIATED = "initiated"
    RUN = "run"
    COMPLETED = "completed"
    FAILED = "failed"

    @property
    def is_terminal(self) -> bool:
        """Nothing follows."""
        return self in {State.COMPLETED, State.FAILED}


class StateDescriptor(WireModel):
    """A state with its flags."""

    name: State
    initial: bool = False
    terminal: bool = False
    success: bool = False
    auto_advance: bool = False


class Transition(WireModel):
    """A step between states; `*` stands for any state that is not terminal."""

    name: str
    source: str
    target: State


STATES: Final = (
    StateDescriptor(name=State.INITIATED, initial=True, auto_advance=True),
    StateDescriptor(name=State.RUN, auto_advance=True),
    StateDescriptor(name=State.COMPLETED, terminal=True, success=True),
    StateDescriptor(name=State.FAILED, terminal=True),
)
TRANSITIONS: Final = (
    Transition(name="run", source=State.INITIATED, target=State.RUN),
    Transition(name="complete", source=State.RUN, target=State.COMPLETED),
    Transition(name="fail", source="*", target=State.FAILED),
)


class ScopeInput(WireModel):
    """The scope every run is started for; it must be one and belong together."""

    organization_uuid: Uuid = Field(description="The key's own organization.")
    agent_config_uuid: Uuid = Field(description="The agent config whose memory it is.")


class LoadInput(ScopeInput):
    """An explicit recall."""

    session_uuid: Uuid = Field(description="The session that will use the memory; it must be known.")
    cue: TaskText | None = Field(default=None, description="Left out: the session's task.")
    strategy: Strategy | None = Field(default=None, description="Left out: the agent config's.")
    top_k: TopK | None = Field(default=None, description="Left out: the agent config's.")
    format: MemoryFormat = RecallFormat.PLAIN


class DistillInput(ScopeInput):
    """A session that ended and is to be distilled, once."""

    session_uuid: Uuid = Field(description="The session; it must have ended.")


class SaveInput(ScopeInput):
    """Entries to keep."""

    session_uuid: Uuid = Field(description="The session that the entries come from; it must be known.")
    entries: Entries = Field(description="What to keep.")
    principal_ref: PrincipalRef | None = Field(
        default=None, description="Whose memory this is; left out, it is the session's own caller."
    )


class PruneInput(ScopeInput):
    """An agent config to cut down."""

    max_entries: Count | None = Field(default=None, description="Left out: the agent config's cap.")


class FailureOutput(WireModel):
    """What a failed run says, all seven together."""

    error: str | None = Field(default=None, description="What went wrong.")
    error_type: str | None = Field(default=None, description="The kind of error.")
    failed_at: str | None = Field(default=None, description="When: RFC 3339, in UTC.")
    failed_at_state: State | None = Field(default=None, description="The state it failed in.")
    failed_layer: str | None = Field(default=None, description="The part of the system that failed.")
    failed_step: str | None = Field(default=None, description="What was being done there.")
    failure_reason: str | None = Field(default=None, description="Why, as a word that a program can test.")


class EntryOutcome(StrEnum):
    """What became of one entry of a save."""

    SAVED = "saved"
    REINFORCED = "reinforced"
    SKIPPED = "skipped"


class EntryResult(WireModel):
    """One entry of a save, by its position in the request."""

    position: Count = Field(description="Counted from 0.")
    outcome: EntryOutcome = Field(description="What became of it.")
    memory_id: Uuid | None = Field(default=None, description="The memory entry; null if skipped.")
    reason: str | None = Field(default=None, description="Why it was skipped.")
    echo: bool | None = Field(
        default=None, description="True for a lesson that its own session had recalled; else left out."
    )
    held_for: str | None = Field(
        default=None, description="Why the entry is held back and not recalled; null if it is not."
    )


class SaveOutput(FailureOutput):
    """What a save did."""

    saved: Count = Field(default=0, description="New entries.")
    skipped: Count = Field(default=0, description="Entries that were not kept.")
    reinforced: Count = Field(default=0, description="Saves of a text that was there already.")
    skipped_reason: str | None = Field(default=None, description="Why nothing at all was written.")
    results: tuple[EntryResult, ...] = Field(default=(), description="Each entry of the request.")
    session_uuid: Uuid = Field(description="As it came in.")
    agent_config_uuid: Uuid = Field(description="As it came in.")
    organization_uuid: Uuid = Field(description="As it came in.")


class DistillOutput(FailureOutput):
    """The save run that a distill started, or why there is none."""

    save_workflow_id: Uuid | None = Field(default=None, description="The save run it started.")
    lessons: Count = Field(default=0, description="How many lessons that run was given.")
    skipped_reason: str | None = Field(default=None, description="Why there is no save run.")
    provider: str | None = Field(default=None, description="The model's provider, as it names itself.")
    provider_version: str | None = Field(default=None, description="Its version.")
    model: str | None = Field(default=None, description="The model, as the endpoint names it.")
    prompt_version: str | None = Field(default=None, description="The version of the prompt it was given.")
    calls: Count | None = Field(default=None, description="How often it was asked.")
    prompt_tokens: Count | None = Field(default=None, description="Tokens sent in all calls.")
    completion_tokens: Count | None = Field(default=None, description="Tokens answered in all calls.")
    milliseconds: Count | None = Field(default=None, description="How long all calls took.")
    price: float | None = Field(default=None, description="What the tokens cost, where prices are set.")
    dropped: Count | None = Field(default=None, description="Items of the answer that were no lessons.")
    folded: Count | None = Field(default=None, description="Items that repeated a lesson.")
    redacted: dict[str, Count] | None = Field(
        default=None, description="Secrets taken out of the session before, by kind."
    )
    dropped_calls: Count | None = Field(default=None, description="Calls of the trace before the last 25.")
    waiting_for: str | None = Field(
        default=None, description="While it waits to be tried again: why the last attempt did not end it."
    )


class LoadOutput(WireModel):
    """What a load gave; `memory` is the serialized text."""

    memory: str = Field(
        description="The serialized text, ready for a prompt; empty if there is none (`[]` as `json`)."
    )
    count: Count = Field(description="How many entries are in it.")
    pack_id: Uuid | None = Field(default=None, description="The pack's id; null for any other strategy.")


class PruneOutput(FailureOutput):
    """What a prune took away and left."""

    deleted: Count = Field(default=0, description="Entries taken away.")
    remaining: Count = Field(default=0, description="Entries left.")
    skipped_reason: str | None = Field(default=None, description="Why nothing was pruned.")


@dataclass(frozen=True, slots=True)
class WorkflowDescriptor:
    """A type with the models that validate it."""

    workflow_type: WorkflowType
    description: str
    input: type[ScopeInput]
    output: type[WireModel]


WORKFLOWS: Final[Mapping[WorkflowType, WorkflowDescriptor]] = {
    d.workflow_type: d
    for d in (
        WorkflowDescriptor(
            WorkflowType.MEMORY_LOAD, "Hand out the memory for a session.", LoadInput, LoadOutput
        ),
        WorkflowDescriptor(
            WorkflowType.MEMORY_DISTILL,
            "Learn lessons from a session that ended.",
            DistillInput,
            DistillOutput,
        ),
        WorkflowDescriptor(
            WorkflowType.MEMORY_SAVE, "Keep entries, each counted once.", SaveInput, SaveOutput
        ),
        WorkflowDescriptor(
            WorkflowType.MEMORY_PRUNE, "Cut an agent config down to its cap.", PruneInput, PruneOutput
        ),
    )
}


def describe(descriptor: WorkflowDescriptor) -> dict[str, object]:
    """The descriptor as the schema route shows it; `input` and `output` are JSON Schemas."""
    return {
        "name": descriptor.workflow_type.value,
        "description": descriptor.description,
        "kind": KIND,
        "library": LIBRARY,
        "version": VERSION,
        "triggers": {kind: list(names) for kind, names in TRIGGERS.items()},
        "input": descriptor.input.model_json_schema(),
        "output": descriptor.output.model_json_schema(mode="serialization"),
        "states": [state.model_dump(mode="json") for state in STATES],
        "transitions": [step.model_dump(mode="json") for step in TRANSITIONS],
    }
