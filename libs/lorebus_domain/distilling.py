"""Which sessions are distilled, and what of a session a distiller gets to see.

The rule that must not break: what `prepare` gives back holds no recalled memory, no secret whole or in part,
and never more than the stated lengths (SPEC.md section 4).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lorebus_domain import policy
from lorebus_domain.distil_text import PreparedText, prepare_input, prepare_text
from lorebus_domain.recalled_texts import NOTHING_RECALLED, RecalledTexts
from lorebus_domain.visibility import Caller, write_scope

DISTILLED_OUTCOMES: Final = frozenset({"success", "failed"})


class DistillSkip(StrEnum):
    """Why a session was not distilled, or gave nothing to save (SPEC.md section 4)."""

    MEMORY_DISABLED = "memory_disabled"
    WRITE_DISABLED = "write_disabled"
    NOT_TERMINAL = "not_terminal"
    TOO_FEW_STEPS = "too_few_steps"
    UNIDENTIFIED_END_USER = "unidentified_end_user"
    NO_LESSONS = "no_lessons"
    UNKNOWN_AGENT_CONFIG = "unknown_agent_config"
    ERASED = "erased"
    OVER_BUDGET = "over_budget"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a session's trace; `input` is a parsed JSON value, `output` is text."""

    tool: str
    input: object
    output: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class Lesson:
    """One sentence learnt from a session; importance in [0, 1]."""

    text: str
    importance: float


@dataclass(frozen=True, slots=True)
class DistillInput:
    """What a distiller sees of a session: at most 25 calls, the last ones, oldest first."""

    outcome: str
    task: str
    trace: tuple[ToolCall, ...]

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to learn from: no call of a tool, whatever the task. Then no model is asked.

        Of a task alone nobody can tell what worked; models asked for lessons then make them up.
        """
        return not self.trace


@dataclass(frozen=True, slots=True)
class PreparedSession:
    """A session ready for a distiller, how many secrets of each kind it had, and how many calls were left out."""

    input: DistillInput
    redacted: Mapping[str, int]
    dropped_calls: int


def distill_gate(
    *,
    organization_enabled: bool,
    config_enabled: bool,
    write_enabled: bool,
    outcome: str,
    step_count: int,
    caller: Caller,
) -> DistillSkip | None:
    """Why a session is not distilled, the first reason in the order of SPEC.md section 4; None: distil it.

    A session without a caller is distilled into the shared pool; an end user whom nobody could name is not.
    """
    if not (organization_enabled and config_enabled):
        return DistillSkip.MEMORY_DISABLED
    if not write_enabled:
        return DistillSkip.WRITE_DISABLED
    if outcome not in DISTILLED_OUTCOMES:
        return DistillSkip.NOT_TERMINAL
    if step_count < policy.DISTILL_MIN_STEPS:
        return DistillSkip.TOO_FEW_STEPS
    if write_scope(caller) is None:
        return DistillSkip.UNIDENTIFIED_END_USER
    return None


def prepare(
    *,
    outcome: str,
    task: str,
    trace: Sequence[ToolCall],
    recalled: RecalledTexts = NOTHING_RECALLED,
) -> PreparedSession:
    """What a distiller gets of a session: the last 25 calls without recalled memory, secrets and excess length.

    The task keeps at most 10 000 code points; each call's output, and its input written as JSON, at most 2 000.
    What was cut out of the middle is named by a mark that says how many code points it was. An input keeps its
    shape unless it is too long whatever its strings are cut to; then it becomes the cut text of its JSON.
    `recalled` are texts that the session was handed, which are taken out wherever they stand.
    Source: SPEC.md section 4.
    """
    kept = trace[-policy.DISTILL_MAX_TOOL_CALLS :]
    counts: Counter[str] = Counter()
    clear_task = _counted(prepare_text(recalled.taken_out(task), policy.DISTILL_TASK_CHARS), counts)
    calls = tuple(_prepare_call(call, counts, recalled) for call in kept)
    return PreparedSession(
        input=DistillInput(outcome=outcome, task=clear_task, trace=calls),
        redacted=dict(counts),
        dropped_calls=len(trace) - len(kept),
    )


def _prepare_call(call: ToolCall, counts: Counter[str], recalled: RecalledTexts) -> ToolCall:
    given = prepare_input(recalled.taken_out_of(call.input), policy.DISTILL_CALL_TEXT_CHARS)
    counts.update(given.counts)
    return ToolCall(
        tool=_counted(prepare_text(call.tool, policy.DISTILL_CALL_TEXT_CHARS), counts),
        input=given.value,
        output=_counted(
            prepare_text(recalled.taken_out(call.output), policy.DISTILL_CALL_TEXT_CHARS), counts
        ),
        is_error=call.is_error,
    )


def _counted(prepared: PreparedText, counts: Counter[str]) -> str:
    counts.update(prepared.counts)
    return prepared.text
