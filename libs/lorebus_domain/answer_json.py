"""Finding JSON in a model's answer: the whole of it, in a fence, in prose, or broken off.

The rule that must not break: no input makes it raise, recurse without bound or look at a character more than a
fixed number of times, and a string that broke off is no value.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

# How many brackets are tried as the beginning of a list. Prose has few; each failed try may read to the end.
_MAX_TRIES: Final = 32
# The first number of digits that Python refuses to read as an integer is far beyond this.
_MAX_WHOLE_DIGITS: Final = 64
_FENCE: Final = re.compile(r"```[\w+-]{0,20}\s*(?=[\[{]|null\b)")
_BRACKET: Final = re.compile(r"[\[{]")
_SPACE: Final = re.compile(r"[\s\ufeff]*")
_BETWEEN_ITEMS: Final = re.compile(r"[\s,;]*")
_OBJECT: Final = re.compile(r"\{\s*\"")
_LIST_NAME: Final = re.compile(r"\s*\"[\w -]{1,40}\"\s*:\s*\[")


@dataclass(frozen=True, slots=True)
class Unparsed:
    """No JSON value stands here, or none that is complete."""


UNPARSED: Final = Unparsed()


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MAX_WHOLE_DIGITS else float(digits)


# Raw control characters inside strings are taken, since models write them.
_DECODER: Final = json.JSONDecoder(strict=False, parse_int=_number)


def parse_whole(text: str) -> object:
    """The JSON value that the text is, or `UNPARSED`."""
    start = _after(_SPACE, text, 0)
    value, end = _value_at(text, start)
    return value if _after(_SPACE, text, end) == len(text) else UNPARSED


def find_lists(text: str) -> Iterator[object]:
    """Values in the text that may be a list of lessons, the likeliest first.

    Fenced values; then balanced arrays and objects in the order in which they stand; then what is complete of
    a list that broke off, or of objects one after another. A text that begins with a bracket has no fence
    around it: one inside belongs to a lesson.
    """
    if _BRACKET.match(text, _after(_SPACE, text, 0)) is None:
        yield from _fenced(text)
    yield from _balanced(text)
    yield from _broken_off(text)


def _fenced(text: str) -> Iterator[object]:
    for fence in islice(_FENCE.finditer(text), _MAX_TRIES):
        value, _ = _value_at(text, fence.end())
        yield value if _holds_list(value) else _complete_items(text, fence.end())[0]


def _balanced(text: str) -> Iterator[object]:
    position = 0
    for _ in range(_MAX_TRIES):
        bracket = _BRACKET.search(text, position)
        if bracket is None:
            return
        value, end = _value_at(text, bracket.start())
        position = max(end, bracket.end())
        if _holds_list(value):
            yield value


def _broken_off(text: str) -> Iterator[object]:
    position = 0
    for _ in range(_MAX_TRIES):
        bracket = _BRACKET.search(text, position)
        if bracket is None:
            return
        items, end = _complete_items(text, bracket.start())
        position = max(end, bracket.end())
        if items:
            yield items


def _holds_list(value: object) -> bool:
    """Whether a value is a list or has one; an object that is itself a lesson may be one of several."""
    if isinstance(value, dict):
        return "text" not in value and (
            not value or "lessons" in value or any(isinstance(item, list) for item in value.values())
        )
    return value is None or isinstance(value, list)


def _complete_items(text: str, start: int) -> tuple[list[object], int]:
    """The complete values of a list that begins here, its brackets or not, and where the last one ends.

    In the place of an item that is no JSON stands `UNPARSED`, and the next object behind it goes on; what the
    answer broke off in is no item.
    """
    items: list[object] = []
    end = position = _first_item(text, start)
    tries = 0
    while tries < _MAX_TRIES:
        position = _after(_BETWEEN_ITEMS, text, position)
        value, position = _value_at(text, position)
        if not isinstance(value, Unparsed):
            items.append(value)
            end = position
            continue
        tries += 1
        resumed = _next_object(text, position)
        if resumed is None:
            break
        items.append(UNPARSED)
        position = resumed
    while items and isinstance(items[-1], Unparsed):
        items.pop()
    return items, end


def _first_item(text: str, start: int) -> int:
    """Where the items of a list begin that begins here: behind its bracket, or behind `{"name": [`."""
    if text.startswith("[", start):
        return start + 1
    named = _LIST_NAME.match(text, start + 1)
    if named is None or not isinstance(_value_at(text, start)[0], Unparsed):
        return start
    return named.end()


def _next_object(text: str, failed: int) -> int | None:
    """Where to go on behind an item that is no JSON; None at the list's own end."""
    if not text.startswith(("{", '"'), failed):
        return None
    following = _OBJECT.search(text, failed + 1)
    return following.start() if following else None


def _value_at(text: str, start: int) -> tuple[object, int]:
    """The JSON value that begins here and where it ends; `UNPARSED` and `start` when there is none."""
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        # Bad JSON raises the one, nesting beyond the interpreter's own bound the other; neither is a list of
        # lessons.
        return UNPARSED, start


def _after(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start
