"""A trace as the rules read it: per call its tool, its arguments by name, and what came of it.

The rule that must not break: tools and arguments whose names do not look like identifiers are not named to the
rules at all, so that a record used as a name cannot get into a lesson.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from lorebus_domain.distilling import DistillInput, ToolCall
from lorebus_domain.error_template import error_message, error_template
from lorebus_domain.plain_words import PLAIN_WORDS

# Letters in parts joined by `_`, `-` or `.`, each part with at most two digits at its end (`address1`, `oauth2`).
_IDENTIFIER: Final = re.compile(r"_{0,2}[A-Za-z]{1,40}\d{0,2}(?:[_.-]{1,2}[A-Za-z]{1,40}\d{0,2}){0,8}")
_MAX_NAME_CHARS: Final = 64
# Tools that hold an agent's own thoughts or sums: what they do changes nothing outside the agent.
_THINKING: Final = frozenset(
    {"think", "thinking", "thought", "reflect", "reason", "plan", "scratchpad", "sequentialthinking", "todo"}
    | {"calculate", "calculator"}
)
_READING: Final = frozenset(
    {"get", "search", "find", "list", "read", "open", "view", "show", "fetch", "query", "describe", "lookup"}
    | {"look", "check", "ls", "cat", "grep"}
)
_EMPTY_ANSWERS: Final = frozenset({"[]", "{}", "null", "[[]]"})
# A short string of a record, in which a capital is a name's and not a sentence's.
_MAX_NAME_WORDS: Final = 4
_CAPITALISED: Final = re.compile(r"\b[A-Z][a-z]+\b")
_TOLD_WORD: Final = re.compile(r"[A-Za-z][\w-]*")
_NAME_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_QUOTED: Final = re.compile(r"\"([^\"\n]{1,60})\"")
_MAX_LEVELS: Final = 64


class Result(StrEnum):
    """What came of a call; `UNCLEAR` is a call flagged as an error whose output says nothing of one."""

    DONE = "done"
    EMPTY = "empty"
    FAILED = "failed"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Step:
    """One call; `arguments` maps names to values in writing, `whole` is the whole input in writing.

    `error` is the template of what the output says, when `result` is `FAILED`.
    """

    tool: str
    arguments: Mapping[str, str]
    whole: str
    result: Result
    error: str | None

    @property
    def is_thinking(self) -> bool:
        """Whether the call changed and asked nothing outside the agent."""
        return self.tool.lower() in _THINKING

    @property
    def is_reading(self) -> bool:
        """Whether the tool's name says that it only looks something up."""
        return re.split(r"[_.-]", self.tool.lower())[0] in _READING


def steps_of(session: DistillInput) -> tuple[Step, ...]:
    """The calls of a session in order, those with a tool that cannot be named left out.

    An argument's name that is no plain word, and that the task or an input has as a word, is taken for a record
    used as a name and left out as well. An error text that only one call of one tool gave, and several calls of
    another, counts for the other tool alone: a runner that overlaps calls may hand an answer to the wrong one.
    """
    calls = [call for call in session.trace if is_identifier(call.tool)]
    told = _Told(words=_words_told(session.task, calls), capitalised=_capitalised_words(calls))
    return _without_strays(tuple(_step(call, told) for call in calls))


def is_identifier(name: str) -> bool:
    """Whether a name can be written into a lesson: an identifier of words, with no long number in it."""
    return len(name) <= _MAX_NAME_CHARS and _IDENTIFIER.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class _Told:
    """Words of the session, in lower case: those of task and inputs, and those that records capitalise."""

    words: frozenset[str]
    capitalised: frozenset[str]


def _step(call: ToolCall, told: _Told) -> Step:
    arguments = _arguments(call.input, told.words)
    result, error = _outcome(call, {call.tool, *arguments}, told.capitalised)
    return Step(
        tool=call.tool,
        arguments=MappingProxyType(arguments),
        whole=_written(call.input),
        result=result,
        error=error,
    )


def _outcome(call: ToolCall, names: set[str], capitalised: frozenset[str]) -> tuple[Result, str | None]:
    if call.is_error:
        message = error_message(call.output)
        error = error_template(message, names=names, capitalised=capitalised) if message else None
        return (Result.FAILED, error) if error else (Result.UNCLEAR, None)
    return (Result.EMPTY if call.output.strip() in _EMPTY_ANSWERS else Result.DONE), None


def _arguments(given: object, told: frozenset[str]) -> dict[str, str]:
    """The arguments by name, each value in writing; none for an input that is no object."""
    value = _parsed(given) if isinstance(given, str) else given
    if not isinstance(value, Mapping):
        return {}
    return {name: _written(item) for name, item in sorted(value.items()) if _is_argument(name, told)}


def _is_argument(name: str, told: frozenset[str]) -> bool:
    if not is_identifier(name):
        return False
    parts = [part.lower() for part in _NAME_PART.findall(name)]
    return name.lower() not in told or all(part in PLAIN_WORDS for part in parts)


def _parsed(text: str) -> object:
    """What a string input holds: some runtimes hand the arguments over as JSON in a string."""
    if not text.startswith("{"):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _written(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _without_strays(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    seen = Counter((step.error, step.tool) for step in steps if step.error)
    most = {error: max(n for (text, _), n in seen.items() if text == error) for error, _ in seen}
    return tuple(
        replace(step, result=Result.UNCLEAR, error=None)
        if step.error and seen[step.error, step.tool] == 1 and most[step.error] > 1
        else step
        for step in steps
    )


def _words_told(task: str, calls: Iterable[ToolCall]) -> frozenset[str]:
    texts = [task, *(text for call in calls for text in _strings(call.input, levels=_MAX_LEVELS))]
    return frozenset(word.lower() for text in texts for word in _TOLD_WORD.findall(text))


def _capitalised_words(calls: Iterable[ToolCall]) -> frozenset[str]:
    """The words that short strings of the records write with a capital, in lower case."""
    words: set[str] = set()
    for call in calls:
        for text in (*_strings(call.input, levels=_MAX_LEVELS), *_QUOTED.findall(call.output)):
            if len(text.split()) <= _MAX_NAME_WORDS:
                words.update(word.lower() for word in _CAPITALISED.findall(text))
    return frozenset(words)


def _strings(value: object, *, levels: int) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif levels and isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item, levels=levels - 1)
    elif levels and isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item, levels=levels - 1)
