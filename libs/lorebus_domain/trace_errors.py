"""What a trace teaches about errors: how one was put right, what did not help, and where to stop.

The rule that must not break: an error counts as put right only if the same tool never failed with it again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from lorebus_domain.distilling import Lesson
from lorebus_domain.trace_sentences import in_order, joined, when_fails
from lorebus_domain.trace_steps import Result, Step

# How much each kind of evidence is worth; `_MORE` is added where the error came more than once.
_PUT_RIGHT: Final = 0.7
_PUT_RIGHT_ELSEWHERE: Final = 0.6
_CORRECTED: Final = 0.5
_SAME_CALL_WORKED: Final = 0.4
_DEAD_END: Final = 0.6
_STOPPED: Final = 0.4
_ENDED_FAILING: Final = 0.5
_REPEATED: Final = 0.6
_MORE: Final = 0.1
_MAX_REPAIRS: Final = 3


@dataclass(frozen=True, slots=True)
class _Trouble:
    """All failures of one tool with one error, and the first success of that tool after the last of them."""

    tool: str
    error: str
    failures: tuple[int, ...]
    success: int | None


def error_lessons(steps: tuple[Step, ...], *, outcome: str) -> Iterator[Lesson]:
    """The lessons about each error of the trace, in the order in which the errors first came."""
    for trouble in _troubles(steps):
        if trouble.success is not None:
            yield _put_right(steps, trouble, trouble.success)
        elif not _is_unclear(steps, trouble):
            yield from _repeated(steps, trouble)
            yield from _never_put_right(steps, trouble, outcome)


def has_open_error(steps: tuple[Step, ...]) -> bool:
    """Whether some tool's last word was an error."""
    return any(trouble.success is None for trouble in _troubles(steps))


def _importance(base: float, trouble: _Trouble) -> float:
    return round(base + _MORE, 1) if len(trouble.failures) > 1 else base


def _troubles(steps: tuple[Step, ...]) -> Iterator[_Trouble]:
    kinds = dict.fromkeys((step.tool, step.error) for step in steps if step.error is not None)
    for tool, error in kinds:
        if error is None:
            continue
        failures = tuple(n for n, step in enumerate(steps) if (step.tool, step.error) == (tool, error))
        later = (n for n in range(failures[-1], len(steps)) if _worked(steps[n]) and steps[n].tool == tool)
        yield _Trouble(tool=tool, error=error, failures=failures, success=next(later, None))


def _worked(step: Step) -> bool:
    return step.result in {Result.DONE, Result.EMPTY}


def _is_unclear(steps: tuple[Step, ...], trouble: _Trouble) -> bool:
    """Whether a later call of the tool may have worked: then nothing is known of the end."""
    later = steps[trouble.failures[-1] :]
    return any(step.tool == trouble.tool and step.result is Result.UNCLEAR for step in later)


def _put_right(steps: tuple[Step, ...], trouble: _Trouble, success: int) -> Lesson:
    failed, worked = steps[trouble.failures[-1]], steps[success]
    start = when_fails(trouble.tool, trouble.error)
    if failed.whole == worked.whole:
        return _put_right_elsewhere(steps[trouble.failures[-1] + 1 : success], trouble)
    change = _change(failed, worked)
    if change is None:
        return Lesson(f"{start}, call it again with a corrected input: that worked.", _CORRECTED)
    if set(failed.arguments) == set(worked.arguments) and len(failed.arguments) == 1:
        return Lesson(
            f"{start}, correct its {joined(list(failed.arguments))} and call it again: that worked.",
            _CORRECTED,
        )
    return Lesson(f"{start}, call it again {change}: that worked.", _importance(_PUT_RIGHT, trouble))


def _put_right_elsewhere(between: tuple[Step, ...], trouble: _Trouble) -> Lesson:
    """The same call worked later: because of what other tools did meanwhile, or by itself."""
    start = when_fails(trouble.tool, trouble.error)
    repairs = [step.tool for step in between if _worked(step) and not step.is_thinking]
    if not repairs:
        return Lesson(f"{start}, the same call may simply work when it is made again.", _SAME_CALL_WORKED)
    last = list(dict.fromkeys(reversed(repairs)))[:_MAX_REPAIRS][::-1]
    return Lesson(f"{start}, the same call can work after {in_order(last)}.", _PUT_RIGHT_ELSEWHERE)


def _change(failed: Step, worked: Step) -> str | None:
    """Which arguments differ between two calls, by name; None when their names say nothing of it."""
    before, after = failed.arguments, worked.arguments
    added = sorted(after.keys() - before.keys())
    dropped = sorted(before.keys() - after.keys())
    changed = sorted(name for name in before.keys() & after.keys() if before[name] != after[name])
    parts: list[str] = []
    if changed:
        parts.append(f"with {_other_values(changed)}")
    if added:
        parts.append(f"with {joined(added)} given as well")
    if dropped:
        parts.append(f"without {joined(dropped)}")
    return ", ".join(parts) or None


def _other_values(names: list[str]) -> str:
    return f"{'another value' if len(names) == 1 else 'other values'} for {joined(names)}"


def _repeated(steps: tuple[Step, ...], trouble: _Trouble) -> Iterator[Lesson]:
    """The very same call, made again, failed in the very same way."""
    inputs = sorted(steps[n].whole for n in trouble.failures)
    if any(len(list(same)) > 1 for _, same in groupby(inputs)):
        yield Lesson(
            f"{when_fails(trouble.tool, trouble.error)}, the same call fails again: change its input, or do something"
            " else first.",
            _importance(_REPEATED, trouble),
        )


def _never_put_right(steps: tuple[Step, ...], trouble: _Trouble, outcome: str) -> Iterator[Lesson]:
    start = when_fails(trouble.tool, trouble.error)
    tried = _tried(steps, trouble)
    in_vain = f" and {_other_values(tried)} made no difference" if tried else ""
    after = [
        step.tool for step in steps[trouble.failures[-1] + 1 :] if _worked(step) and not step.is_thinking
    ]
    if outcome != "success":
        yield Lesson(
            f'Do not end with `{trouble.tool}` still failing with "{trouble.error}": a session that did so failed.',
            _importance(_ENDED_FAILING, trouble),
        )
    elif after:
        yield Lesson(
            f"{start}{in_vain}, ending with `{after[-1]}` can be right: a session that did so ended well.",
            _importance(_DEAD_END, trouble),
        )
    else:
        yield Lesson(
            f"{start}{in_vain}, it can be right to leave it at that: a session that did so ended well.",
            _STOPPED,
        )


def _tried(steps: tuple[Step, ...], trouble: _Trouble) -> list[str]:
    """The arguments whose values were changed between the failures, in vain."""
    names = sorted({name for n in trouble.failures for name in steps[n].arguments})
    return [name for name in names if len({steps[n].arguments.get(name) for n in trouble.failures}) > 1]
