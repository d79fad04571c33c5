"""The 43 real sessions, and the values in them that belong to somebody's records."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import lorebus_ops
from lorebus_domain.distilling import DistillInput, ToolCall, prepare

SESSIONS: Final = Path(lorebus_ops.__path__[0]) / "data" / "sessions.jsonl"
# A longer string is prose: its names and codes are records, its other words are not.
_MAX_VALUE_WORDS: Final = 4
_CODE: Final = re.compile(r"[\w@.-]*[\d@][\w@.-]*")
_NAME: Final = re.compile(r"\b[A-Z]\w{2,}")
_NAME_INSIDE: Final = re.compile(r"(?<=[a-z,] )[A-Z]\w{2,}")


@dataclass(frozen=True, slots=True)
class RealSession:
    outcome: str
    task: str
    caller_ref: str | None
    trace: tuple[ToolCall, ...]

    def prepared(self) -> DistillInput:
        return prepare(outcome=self.outcome, task=self.task, trace=self.trace).input


@cache
def real_sessions() -> tuple[RealSession, ...]:
    return tuple(_session(json.loads(line)) for line in SESSIONS.read_text("utf-8").splitlines())


def record_values(session: RealSession) -> frozenset[str]:
    """What is somebody's: names, ids, codes, dates, amounts and addresses of inputs, outputs, task and caller."""
    found = {session.caller_ref or "-", *_CODE.findall(session.task), *_NAME_INSIDE.findall(session.task)}
    for call in session.trace:
        for text in (*_leaves(call.input), *_leaves(_parsed(call.output))):
            found.update(_CODE.findall(text))
            if len(text.split()) <= _MAX_VALUE_WORDS:
                found.update((text, *_NAME.findall(text)))
    return frozenset(found - {""})


def _session(event: dict[str, object]) -> RealSession:
    trace, caller = event["trace"], event["caller"]
    assert isinstance(trace, list)
    assert isinstance(caller, dict)
    calls = tuple(ToolCall(call["tool"], call["input"], call["output"], call["is_error"]) for call in trace)
    return RealSession(str(event["outcome"]), str(event["task"]), caller["ref"], calls)


def _parsed(output: str) -> object:
    try:
        return json.loads(output)
    except ValueError:
        return output


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)
