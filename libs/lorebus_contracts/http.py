"""What HTTP takes: bodies and queries (SPEC.md section 8). OpenAPI is generated from these models.

The rule that must not break: no body names an organization, a caller or a principal where a token or a stored
session fixes them (SPEC.md section 6).
"""

import re
from typing import Annotated, Final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from lorebus_contracts.events import CallerBody, Entries, EntryBody, Origin, Trace
from lorebus_contracts.fields import (
    CleanStr,
    Count,
    EntryText,
    Flag,
    MemoryFormat,
    Name,
    Outcome,
    PrincipalRef,
    Score,
    TaskText,
    Timestamp,
    TopK,
    Uuid,
)
from lorebus_contracts.wire import WireModel
from lorebus_contracts.workflows import WORKFLOWS, State, WorkflowType
from lorebus_domain import policy
from lorebus_domain.quarantine import EntryState
from lorebus_domain.recall import PackReach, Strategy
from lorebus_domain.recall_format import RecallFormat

MAX_PAGE: Final = 1_000_000
LISTED_TYPES: Final = (WorkflowType.MEMORY_SAVE, WorkflowType.MEMORY_DISTILL, WorkflowType.MEMORY_PRUNE)
"""The types whose runs are listed; a load's run is its recall, which has a receipt."""

_DIGITS: Final = re.compile("[0-9]{1,9}")

EventId = Annotated[
    Uuid | None,
    Field(
        description="Made by the client, so that what it sends again is taken once; left out, one is made here."
    ),
]


def _whole_number(low: int, high: int) -> BeforeValidator:
    """A query's digits as a number in [low, high]; no sign, space, underscore or exponent."""

    def read(value: object) -> object:
        if isinstance(value, str):
            value = int(value) if _DIGITS.fullmatch(value) else None
        if not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"should be a whole number from {low} to {high}")
        return value

    return BeforeValidator(read)


def _yes_or_no(value: object) -> object:
    if value not in {"true", "false"}:
        raise ValueError("should be `true` or `false`")
    return value == "true"


def _has_few_words(value: str) -> str:
    words = len(value.split())
    if not 1 <= words <= policy.LIST_QUERY_WORDS or len(value) > policy.LIST_QUERY_CHARS:
        raise ValueError(
            f"should be 1 to {policy.LIST_QUERY_WORDS} words of at most {policy.LIST_QUERY_CHARS} characters together"
        )
    return value


def _has_a_list(value: WorkflowType) -> WorkflowType:
    if value not in LISTED_TYPES:
        raise ValueError(f"has no list of runs; should be one of {', '.join(LISTED_TYPES)}")
    return value


YesOrNo = Annotated[bool, BeforeValidator(_yes_or_no)]
"""A query's `true` or `false`."""

SearchText = Annotated[
    CleanStr,
    AfterValidator(_has_few_words),
    Field(
        json_schema_extra={
            "maxLength": policy.LIST_QUERY_CHARS,
            # U+0000 is taken out before words are counted.
            "pattern": rf"^[\s\u0000]*[^\s\u0000]\S*(\s+\S+){{0,{policy.LIST_QUERY_WORDS - 1}}}\s*$",
        }
    ),
]
"""Words to look for, cleaned as the texts are."""

# The schemas are written out, because the schema of a query's field stands by itself.
ListedType = Annotated[
    WorkflowType,
    AfterValidator(_has_a_list),
    WithJsonSchema({"type": "string", "enum": [listed.value for listed in LISTED_TYPES]}),
]
ListedState = Annotated[State, WithJsonSchema({"type": "string", "enum": [state.value for state in State]})]


class NoInput(WireModel):
    """A route that takes neither a body nor a query."""


class SaveBody(WireModel):
    """What a session wants remembered: `entries`, or one text as `content`, never both."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {
                    "required": ["entries"],
                    "properties": {"entries": {"type": "array"}, "content": {"type": "null"}},
                },
                {
                    "required": ["content"],
                    "properties": {"content": {"type": "string"}, "entries": {"type": "null"}},
                },
            ]
        }
    )

    entries: Entries | None = Field(default=None, description="What to remember, 1 to 100 entries.")
    content: EntryText | None = Field(default=None, description="One entry of default importance.")

    @model_validator(mode="after")
    def _is_one_of_two(self) -> "SaveBody":
        if (self.entries is None) == (self.content is None):
            raise ValueError("takes either `entries` or `content`, one of the two")
        return self

    def all_entries(self) -> tuple[EntryBody, ...]:
        """The entries, however they were sent: 1 to 100."""
        if self.content is not None:
            return (EntryBody(text=self.content),)
        return self.entries or ()


class LoadBody(WireModel):
    """A recall for the token's own session."""

    cue: TaskText | None = Field(default=None, description="Left out: the session's task.")
    strategy: Strategy | None = Field(default=None, description="Left out: the agent config's.")
    top_k: TopK | None = Field(default=None, description="Left out: the agent config's.")
    format: MemoryFormat = RecallFormat.PLAIN
    explain: Flag = Field(default=False, description="Also say what was handed out and passed over, and why.")


class MemoryQuery(WireModel):
    """A page of an agent config's entries that meet all conditions named, highest importance first."""

    agent_config_uuid: Uuid = Field(description="Whose entries.")
    principal_ref: PrincipalRef | None = Field(
        default=None, description="Only this principal's entries; left out, those of all."
    )
    shared: YesOrNo | None = Field(
        default=None, description="`true`: only the shared pool; `false`: only what belongs to a principal."
    )
    origin: Origin | None = Field(default=None, description="Only entries that came from there.")
    q: SearchText | None = Field(
        default=None, description="Only entries whose text has each of these words somewhere, in any case."
    )
    min_importance: Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)] | None = Field(
        default=None, description="Only entries of at least this importance."
    )
    state: EntryState = Field(
        default=EntryState.ACTIVE, description="`active`: what is recalled; `quarantined`: what is held back."
    )
    page: Annotated[int, Field(ge=1, le=MAX_PAGE), _whole_number(1, MAX_PAGE)] = Field(
        default=1, description="Which page; past the end it is empty."
    )
    per_page: Annotated[
        int, Field(ge=1, le=policy.LIST_PER_PAGE_MAX), _whole_number(1, policy.LIST_PER_PAGE_MAX)
    ] = Field(default=policy.LIST_PER_PAGE_DEFAULT, description="Entries a page.")

    @model_validator(mode="after")
    def _is_of_one_scope(self) -> "MemoryQuery":
        if self.shared and self.principal_ref is not None:
            raise ValueError("takes `principal_ref` or `shared=true`, not both: the shared pool is nobody's")
        return self

    def words(self) -> tuple[str, ...]:
        """The words that each text must have, at most 10."""
        return tuple((self.q or "").split())


class PruneBody(WireModel):
    """An agent config to cut down now."""

    agent_config_uuid: Uuid = Field(description="The config that loses its lowest-importance entries.")
    max_entries: Count | None = Field(default=None, description="Left out: the agent config's cap.")
    dry_run: Flag = Field(default=False, description="Only tell what would go; nothing is touched.")


class StartBody(WireModel):
    """A workflow run to start; `initial_data` is what the type's own input schema says."""

    workflow_type: WorkflowType = Field(description="What to run; see `/api/workflows/types`.")
    # As it came: the type's own schema cleans texts, and leaves the names of principals alone.
    initial_data: dict[str, JsonValue] = Field(description="The type's inputs; see its schema.")

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """An alternative for each type, with the schema of its inputs."""
        plain = handler.resolve_ref_schema(handler(core))
        alternatives = [
            plain
            | {
                "title": name.value,
                "description": known.description,
                "properties": {
                    "workflow_type": {"const": name.value},
                    "initial_data": handler(known.input.__pydantic_core_schema__),
                },
            }
            for name, known in WORKFLOWS.items()
        ]
        described = {key: plain[key] for key in ("title", "description")}
        plain.clear()
        plain.update(described, oneOf=alternatives)
        return plain


class RunQuery(WireModel):
    """The organization's latest runs, newest first; loads are not among them, each has a receipt instead."""

    type: ListedType | None = Field(default=None, description="Left out: all types but loads.")
    state: ListedState | None = Field(default=None, description="Left out: all states.")
    limit: Annotated[
        int, Field(ge=1, le=policy.LIST_PER_PAGE_MAX), _whole_number(1, policy.LIST_PER_PAGE_MAX)
    ] = Field(default=policy.LIST_PER_PAGE_DEFAULT, description="How many at most.")


class RegisterBody(WireModel):
    """A session about to begin."""

    agent_config_uuid: Uuid = Field(description="The agent that will run; it must be known.")
    session_uuid: Uuid | None = Field(
        default=None, description="The runtime's own id; left out, one is made."
    )
    caller: CallerBody = Field(
        description="Who the session acts for; it fixes whose memory is read and written."
    )
    task: TaskText = Field(default="", description="What the session is to do; the cue of its recalls.")
    load: Flag = Field(
        default=False, description="Also recall, as the agent config says, with the task as cue."
    )


class EndBody(WireModel):
    """A registered session ended; all that a distill needs."""

    outcome: Outcome = Field(description="`success`, `failed`, or another word for any other end.")
    step_count: Count = Field(description="How many steps the session took.")
    trace: Trace = Field(default=(), description="Its calls of tools, oldest first.")
    task: TaskText | None = Field(default=None, description="Left out: the task it was registered with.")
    occurred_at: Timestamp | None = Field(default=None, description="Left out: now.")
    event_id: EventId = None


class RateBody(WireModel):
    """Somebody's verdict on a session; at least 0.5 is a success."""

    quality_score: Score = Field(description="From 0 to 1.")
    occurred_at: Timestamp | None = Field(default=None, description="Left out: now.")
    event_id: EventId = None


class AgentConfigBody(WireModel):
    """The memory settings of an agent config; what is left out is at its default (SPEC.md section 2)."""

    memory_enabled: Flag = Field(default=True, description="Off: no recall, no save, no distill.")
    memory_write_enabled: Flag = Field(default=True, description="Off: its sessions are not distilled.")
    memory_strategy: Strategy = Field(default=Strategy.LAST_K, description="How a recall chooses entries.")
    memory_top_k: TopK = Field(default=policy.TOP_K_DEFAULT, description="Most entries a recall hands out.")
    memory_max_entries: Count = Field(
        default=policy.DEFAULT_MAX_ENTRIES, description="Above this many entries it is pruned."
    )
    memory_pack_reach: PackReach = Field(
        default=PackReach.RECENT, description="`all`: a pack also searches what is neither new nor important."
    )


class OrganizationBody(WireModel):
    """The memory settings of an organization; what is left out is at its default (SPEC.md section 2)."""

    memory_enabled: Flag = Field(default=True, description="Off: no memory for any of its agent configs.")
    model_profile: Name | None = Field(
        default=None, description="Which model distils; none: no model is asked."
    )
