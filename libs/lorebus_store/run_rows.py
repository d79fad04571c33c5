"""What a workflow run consists of, as the store takes it and gives it back.

The rule that must not break: a history is oldest first and begins with `initiated`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from lorebus_contracts.workflows import State, WorkflowType

RunKey: TypeAlias = tuple[UUID, UUID]
"""(organization_uuid, run id)."""

DEAD_LETTERED: Final = "dead_lettered"
"""Why a run failed whose event was set aside: the event may be replayed, and the run begins again."""


class Step(NamedTuple):
    """A step of a run's history: the state it came to and when; `data` is a JSON value as text."""

    state_name: State
    at: datetime
    data: str | None = None


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that ended: `state_data` is a JSON object as text, `steps` are those after `initiated`, oldest first."""

    organization_uuid: UUID
    id: UUID
    type: WorkflowType
    state_name: State
    state_data: str
    agent_config_uuid: UUID
    session_uuid: UUID | None
    created_at: datetime
    finished_at: datetime
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True)
class InitiatedRun:
    """A run that was accepted and waits to be run; `pending_input` are the exact bytes of its event."""

    organization_uuid: UUID
    id: UUID
    type: WorkflowType
    agent_config_uuid: UUID
    session_uuid: UUID | None
    pending_input: bytes
    created_at: datetime
    state_data: str = "{}"


class Run(NamedTuple):
    """A run as it is kept; `history` is oldest first, each step with `state_name`, `at` and maybe `data`."""

    organization_uuid: UUID
    id: UUID
    type: WorkflowType
    state_name: State
    state_data: Mapping[str, Any]
    history: Sequence[Mapping[str, Any]]
    agent_config_uuid: UUID
    session_uuid: UUID | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    attempts: int


class StaleRun(NamedTuple):
    """A run that stayed `initiated`, with the bytes of the event that would run it."""

    organization_uuid: UUID
    id: UUID
    type: WorkflowType
    agent_config_uuid: UUID
    session_uuid: UUID | None
    pending_input: bytes


@dataclass(frozen=True, slots=True)
class Failure:
    """What a failed run says, all seven together (SPEC.md section 2)."""

    error: str
    error_type: str
    failed_at: datetime
    failed_at_state: State
    failed_layer: str
    failed_step: str
    failure_reason: str

    def as_state_data(self) -> str:
        """The seven fields as a JSON object."""
        return json.dumps(asdict(self) | {"failed_at": self.failed_at.isoformat()})


def history_json(created_at: datetime, steps: Iterable[Step]) -> str:
    """The JSON of a history that begins with `initiated` at `created_at`."""
    return f"[{','.join(map(step_json, (Step(State.INITIATED, created_at), *steps)))}]"


def step_json(step: Step) -> str:
    """One step as a JSON object; written by hand, because saves do it thousands of times a second."""
    data = "" if step.data is None else f', "data": {step.data}'
    return f'{{"state_name": "{step.state_name}", "at": "{step.at.isoformat()}"{data}}}'


def run_of(row: Iterable[Any]) -> Run:
    """The run of a row whose columns are the fields of `Run`, in their order."""
    run = Run._make(row)
    return run._replace(type=WorkflowType(run.type), state_name=State(run.state_name))
