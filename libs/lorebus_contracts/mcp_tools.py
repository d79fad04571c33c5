"""What agents and people may do over MCP: each tool's name, words, input and output, once for both transports.

The rule that must not break: schemas are made from the models that validate, and a tool's words say when to use it and
with which credentials, because an agent chooses by them alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar

from pydantic import Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaMode, JsonSchemaValue, models_json_schema
from pydantic_core import CoreSchema

from lorebus_contracts.fields import Uuid
from lorebus_contracts.http import LoadBody, NoInput, RunQuery, SaveBody, StartBody
from lorebus_contracts.http_answers import (
    Accepted,
    LoadAnswer,
    RunHistory,
    RunList,
    RunSnapshot,
    WhoAmI,
    WorkflowSchema,
    WorkflowTypes,
)
from lorebus_contracts.problems import Problem
from lorebus_contracts.wire import WireModel
from lorebus_contracts.workflows import WorkflowType

WATCH_SECONDS_MAX: Final = 30.0
"""Shorter than hosts and proxies wait for an answer."""
WATCH_SECONDS_DEFAULT: Final = 20.0

INSTRUCTIONS: Final = (
    "Lorebus is the memory of a fleet of AI agents. With a session token (header `Authorization: Agent <token>`)"
    " you act for one agent session: `recall` what is known before you begin a task, `remember` a short lesson when"
    " you learnt one that will hold in later sessions. With an API key (header `Authorization: Bearer <key>`) you act"
    " for an organization: start workflow runs and look at them. `whoami` says which of the two you are. What is"
    " refused comes back as a problem document: `type` says what kind of problem, `faults` what to put right; only"
    " `urn:lorebus:problem:unavailable` is worth trying again unchanged."
)

_NOT_AT_THE_ROOT: Final = frozenset({"title", "description", "oneOf", "anyOf", "allOf"})
"""The tool has words of its own, and providers of models refuse a tool whose schema has alternatives at its root; the
model holds them all the same."""

JsonSchema: TypeAlias = dict[str, Any]
InputT = TypeVar("InputT", bound=WireModel)


class TypeInput(WireModel):
    """One workflow type."""

    workflow_type: WorkflowType = Field(description="As list_workflow_types gave it.")


class StartInput(StartBody):
    """The same, with a schema that names the fields at its root and leaves the inputs to get_workflow_schema."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The plain schema."""
        return handler(core)


class RunInput(WireModel):
    """One run."""

    workflow_id: Uuid = Field(description="As start_workflow, remember or list_workflows gave it.")


class WatchInput(RunInput):
    """One run, and how long to wait for its end."""

    timeout_seconds: Annotated[float, Field(strict=True, gt=0.0, le=WATCH_SECONDS_MAX)] = Field(
        default=WATCH_SECONDS_DEFAULT, description="How long to wait at most."
    )


@dataclass(frozen=True, slots=True)
class ToolDefinition(Generic[InputT]):
    """A tool as its users see it; the three flags are MCP's hints, as they are for this tool's effect on memory."""

    name: str
    title: str
    description: str
    input: type[InputT]
    output: type[WireModel]
    read_only: bool = True
    destructive: bool = False
    idempotent: bool = True

    def input_schema(self) -> JsonSchema:
        """The JSON Schema of the arguments; unknown ones are refused."""
        schema = self.input.model_json_schema()
        return {key: value for key, value in schema.items() if key not in _NOT_AT_THE_ROOT}

    def output_schema(self) -> JsonSchema:
        """The JSON Schema of the structured content: the output, or a problem document."""
        uses: list[tuple[type[WireModel], JsonSchemaMode]] = [
            (self.output, "serialization"),
            (Problem, "validation"),
        ]
        references, schema = models_json_schema(uses)
        # Clients before 2026-07-28 take only a schema whose root says that it is an object.
        return {"type": "object", "anyOf": [references[use] for use in uses], "$defs": schema["$defs"]}


WHOAMI: Final = ToolDefinition(
    name="whoami",
    title="Who am I",
    description=(
        "Say whose credentials these are: an organization's (API key) or one agent session's (session token), with"
        " the UUIDs that other tools ask for. Call it first when you do not know your organization_uuid,"
        " agent_config_uuid or session_uuid, or to find out which tools are open to you."
    ),
    input=NoInput,
    output=WhoAmI,
)
LIST_WORKFLOW_TYPES: Final = ToolDefinition(
    name="list_workflow_types",
    title="List workflow types",
    description=(
        "List the types of workflow that can be run, with a sentence each on what it does. Needs no credentials."
        " Then use get_workflow_schema for the inputs of one of them."
    ),
    input=NoInput,
    output=WorkflowTypes,
)
GET_WORKFLOW_SCHEMA: Final = ToolDefinition(
    name="get_workflow_schema",
    title="Show a workflow type",
    description=(
        "Show one workflow type in full: the JSON Schemas of its input and output, its states and transitions."
        " Needs no credentials. Read it before start_workflow, whose initial_data must be exactly what `input` says."
    ),
    input=TypeInput,
    output=WorkflowSchema,
)
START_WORKFLOW: Final[ToolDefinition[StartBody]] = ToolDefinition(
    name="start_workflow",
    title="Start a workflow run",
    description=(
        "Start a run of a workflow type for your organization. Needs an API key. A load (agents.memory-load) is"
        " answered with its result; runs of the other types are accepted and go on by themselves: follow them with"
        " watch_workflow. Every call starts another run, and agents.memory-prune deletes entries for good. An agent"
        " that works on its own session uses recall and remember instead."
    ),
    input=StartInput,
    output=RunSnapshot,
    read_only=False,
    destructive=True,
    idempotent=False,
)
GET_WORKFLOW_STATUS: Final = ToolDefinition(
    name="get_workflow_status",
    title="Show how a run is",
    description=(
        "Show how a run is now, with its inputs and, when it has ended, what came of it. Answers at once; to wait for"
        " the end use watch_workflow. Takes an API key, or the session token of the session that started the run."
    ),
    input=RunInput,
    output=RunSnapshot,
)
WATCH_WORKFLOW: Final = ToolDefinition(
    name="watch_workflow",
    title="Wait for a run to end",
    description=(
        "Wait until a run has ended and show how it ended; use it after start_workflow or remember instead of asking"
        " get_workflow_status again and again. Tells progress while it waits, at most timeout_seconds (30 at most)."
        " With `is_terminal` false the time was up and the run goes on: call again. Takes an API key, or the session"
        " token of the session that started the run."
    ),
    input=WatchInput,
    output=RunSnapshot,
)
GET_WORKFLOW_HISTORY: Final = ToolDefinition(
    name="get_workflow_history",
    title="Show what happened to a run",
    description=(
        "Show every state that a run has come to and when, oldest first. Use it to find out where and why a run"
        " failed or took long; for how it is now, get_workflow_status is enough. Takes an API key, or the session"
        " token of the session that started the run."
    ),
    input=RunInput,
    output=RunHistory,
)
LIST_WORKFLOWS: Final = ToolDefinition(
    name="list_workflows",
    title="List runs",
    description=(
        "List your organization's latest runs, newest first, by type and state: for example those that `failed`, or"
        " that still are `initiated`. Needs an API key. Use it when you have no workflow_id. Loads are not listed."
    ),
    input=RunQuery,
    output=RunList,
)
# What a recall writes, a receipt and access counts, is about the reading itself, and no memory changes by it.
RECALL: Final = ToolDefinition(
    name="recall",
    title="Recall memory",
    description=(
        "Get what is remembered for your session, as text for your context: `memory`. Needs a session token; whose"
        " memory it is, the token says. Call it once before you begin a task, and again with another `cue` when the"
        " task changes. Leave strategy and top_k out unless you were told otherwise. With `count` 0 there is nothing"
        " to know; `skipped_reason` says why you may have no memory: go on without."
    ),
    input=LoadBody,
    output=LoadAnswer,
    idempotent=False,
)
REMEMBER: Final = ToolDefinition(
    name="remember",
    title="Remember lessons",
    description=(
        "Keep something for later sessions of your agent, for whom your session acts. Needs a session token. Give"
        " short sentences that will still be true and useful next time: preferences, facts, what worked, what failed"
        " and why; no secrets, no transcripts. Use `content` for one, `entries` for several, each with its importance"
        " from 0 to 1. What is known already is counted, not doubled. Accepted at once; watch_workflow tells what"
        " was saved, reinforced or skipped."
    ),
    input=SaveBody,
    output=Accepted,
    read_only=False,
    idempotent=False,
)

TOOLS: Final[Mapping[str, ToolDefinition[Any]]] = {
    tool.name: tool
    for tool in (
        RECALL,
        REMEMBER,
        WHOAMI,
        LIST_WORKFLOW_TYPES,
        GET_WORKFLOW_SCHEMA,
        START_WORKFLOW,
        GET_WORKFLOW_STATUS,
        WATCH_WORKFLOW,
        GET_WORKFLOW_HISTORY,
        LIST_WORKFLOWS,
    )
}
"""Every tool by its name, those of an agent first."""
