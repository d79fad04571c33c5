"""What a trace teaches about ways: what to try when nothing is found, which order worked, where a session stopped.

The rule that must not break: a way is told only of a session that took it, with how that session ended.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final

from lorebus_domain.distilling import Lesson
from lorebus_domain.trace_errors import has_open_error
from lorebus_domain.trace_sentences import in_order, joined
from lorebus_domain.trace_steps import Result, Step

# How much each kind of evidence is worth.
_FOUND_ELSEWHERE: Final = 0.6
_FOUND_OTHERWISE: Final = 0.4
_ORDER: Final = 0.5
_ONE_BY_ONE: Final = 0.4
_STOPPED_SHORT: Final = 0.3
_SEARCHED_AT_LARGE: Final = 0.2

_MIN_ORDER_TOOLS: Final = 3
_MAX_ORDER_STEPS: Final = 8
_MAX_LOOP_STEPS: Final = 4
_MIN_RUN: Final = 3
_MAX_KEY_CHARS: Final = 64
_LONG_RUN: Final = 6
_MAX_READERS: Final = 3


def way_lessons(steps: tuple[Step, ...], *, outcome: str) -> Iterator[Lesson]:
    """The lessons about the way the session went; some only from a success, some only from a failure."""
    yield from _after_nothing_found(steps)
    acts = tuple(step for step in steps if not step.is_thinking)
    if outcome == "success":
        yield from _order(acts)
        yield from _one_by_one(acts)
    else:
        yield from _searched_at_large(acts)


def where_it_stopped(steps: tuple[Step, ...]) -> Iterator[Lesson]:
    """What a failed session did last, for one that teaches nothing else: its last call had worked.

    That it went through was not enough, which is worth little once and more with every session that repeats it.
    """
    acts = tuple(step for step in steps if not step.is_thinking)
    if not acts or acts[-1].result is not Result.DONE:
        return
    tools = list(dict.fromkeys(step.tool for step in acts))
    if len(tools) <= _MAX_READERS and all(step.is_reading for step in acts):
        alone = "alone was" if len(tools) == 1 else "alone were"
        yield Lesson(
            f"{joined(tools)} {alone} not enough: a session that called nothing else failed.", _STOPPED_SHORT
        )
        return
    yield Lesson(
        f"`{acts[-1].tool}` going through is not by itself the end of a task: a session that stopped right after it"
        " failed.",
        _STOPPED_SHORT,
    )


def _after_nothing_found(steps: tuple[Step, ...]) -> Iterator[Lesson]:
    for position, step in enumerate(steps):
        if step.result is Result.EMPTY and step.arguments:
            yield from _found_elsewhere(step, steps[position + 1 :])
            yield from _found_otherwise(step, steps[position + 1 :])


def _found_elsewhere(step: Step, later: tuple[Step, ...]) -> Iterator[Lesson]:
    """Another tool, asked with the very same arguments, found something."""
    for other in later:
        if other.tool != step.tool and other.result is Result.DONE and other.whole == step.whole:
            yield Lesson(
                f"When `{step.tool}` comes back empty, try `{other.tool}` with the same {joined(list(step.arguments))}:"
                " it can find something.",
                _FOUND_ELSEWHERE,
            )
            return


def _found_otherwise(step: Step, later: tuple[Step, ...]) -> Iterator[Lesson]:
    """The same tool found something once a single argument was changed."""
    for other in later:
        if other.tool == step.tool and other.result is Result.DONE:
            changed = _changed(step, other)
            if changed is not None and len(changed) == 1:
                yield Lesson(
                    f"When `{step.tool}` comes back empty, another value for {joined(changed)} can find something.",
                    _FOUND_OTHERWISE,
                )
                return


def _changed(step: Step, other: Step) -> list[str] | None:
    """The names of the arguments whose values differ; None when the names themselves do."""
    if step.arguments.keys() != other.arguments.keys():
        return None
    return [name for name, value in step.arguments.items() if other.arguments[name] != value]


def _order(acts: tuple[Step, ...]) -> Iterator[Lesson]:
    """The tools in the order of a success that left no error open; runs and loops told once."""
    tools = _without_loops([step.tool for step in acts if _went_through(step)])
    if has_open_error(acts) or not _MIN_ORDER_TOOLS <= len(set(tools)) <= len(tools) <= _MAX_ORDER_STEPS:
        return
    yield Lesson(
        f"For a task that ends with `{tools[-1]}`, the order that worked: {in_order(tools)}.", _ORDER
    )


def _without_loops(tools: Sequence[str]) -> list[str]:
    """The tools with every block of up to four that follows itself told once."""
    told = list(tools)
    for size in range(1, _MAX_LOOP_STEPS + 1):
        position = 0
        while position + 2 * size <= len(told):
            if told[position : position + size] == told[position + size : position + 2 * size]:
                del told[position : position + size]
            else:
                position += 1
    return told


def _one_by_one(acts: tuple[Step, ...]) -> Iterator[Lesson]:
    """A tool asked for one thing after another before the next tool was used."""
    runs = [tuple(run) for _, run in groupby(acts, key=lambda step: step.tool)]
    for run, following in pairwise(runs):
        varied = _varied(run)
        if len(run) >= _MIN_RUN and len(varied) == 1 and all(_asks_for_one(step, varied[0]) for step in run):
            yield Lesson(
                f"Call `{run[0].tool}` for each {joined(varied)} before `{following[0].tool}`: a session that did so"
                " ended well.",
                _ONE_BY_ONE,
            )


def _asks_for_one(step: Step, name: str) -> bool:
    """Whether a call got an answer for one thing, named by a single word."""
    value = step.arguments.get(name, "")
    return step.result is Result.DONE and len(value) <= _MAX_KEY_CHARS and " " not in value


def _varied(run: tuple[Step, ...]) -> list[str]:
    """The arguments that did not have one value throughout a run."""
    names = sorted({name for step in run for name in step.arguments})
    return [name for name in names if len({step.arguments.get(name) for step in run}) > 1]


def _searched_at_large(acts: tuple[Step, ...]) -> Iterator[Lesson]:
    for tool, calls in groupby(acts, key=lambda step: step.tool):
        run = tuple(calls)
        varied = _varied(run)
        if len(run) >= _LONG_RUN and len(varied) > 1 and all(_went_through(step) for step in run):
            yield Lesson(
                f"Calling `{tool}` many times in a row with other values for {joined(varied)} did not lead to success.",
                _SEARCHED_AT_LARGE,
            )


def _went_through(step: Step) -> bool:
    return step.result in {Result.DONE, Result.EMPTY}
