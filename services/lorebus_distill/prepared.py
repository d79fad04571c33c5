"""A prepared session as it waits in its run: bytes that hold no recalled memory and no secret."""

from dataclasses import dataclass

from pydantic import JsonValue

from lorebus_contracts.events import CallerBody
from lorebus_contracts.wire import WireModel, parse
from lorebus_domain.distilling import DistillInput, PreparedSession, ToolCall


class _Call(WireModel):
    tool: str
    input: JsonValue
    output: str
    is_error: bool


class _Waiting(WireModel):
    caller: CallerBody
    outcome: str
    task: str
    trace: tuple[_Call, ...]
    redacted: dict[str, int]
    dropped_calls: int


@dataclass(frozen=True, slots=True)
class WaitingSession:
    """What a worker finds: who the session acted for, what to distil, and what was taken out before."""

    caller: CallerBody
    session: DistillInput
    redacted: dict[str, int]
    dropped_calls: int


def encode(caller: CallerBody, prepared: PreparedSession) -> bytes:
    """The bytes to keep until a worker comes."""
    session = prepared.input
    waiting = _Waiting.model_validate(
        {
            "caller": caller.model_dump(),
            "outcome": session.outcome,
            "task": session.task,
            "trace": [
                {"tool": call.tool, "input": call.input, "output": call.output, "is_error": call.is_error}
                for call in session.trace
            ],
            "redacted": dict(prepared.redacted),
            "dropped_calls": prepared.dropped_calls,
        }
    )
    return waiting.model_dump_json().encode()


def decode(pending: bytes) -> WaitingSession:
    """What `encode` kept.

    Raises:
        WireError: the bytes are not `encode`'s.
    """
    waiting = parse(_Waiting, pending)
    trace = tuple(ToolCall(call.tool, call.input, call.output, call.is_error) for call in waiting.trace)
    return WaitingSession(
        waiting.caller,
        DistillInput(waiting.outcome, waiting.task, trace),
        waiting.redacted,
        waiting.dropped_calls,
    )
