"""Reading the lessons out of a model's answer, leniently.

The rule that must not break: good items are kept whatever stands around them, never half a string, and the only
error is `UnreadableAnswer`; the work is linear in the answer's length (SPEC.md section 4).
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lorebus_domain import policy
from lorebus_domain.answer_json import Unparsed, find_lists, parse_whole
from lorebus_domain.distilling import Lesson
from lorebus_domain.fingerprint import fingerprint
from lorebus_domain.text import clean, normal_form

# More than five lessons of full length with a model's thinking before them; what stands beyond is not read,
# and an answer that long is taken for one that broke off.
MAX_ANSWER_CHARS: Final = 1_000_000
_LIST_NAME: Final = "lessons"
_TEXT_NAME: Final = "text"
_IMPORTANCE_NAME: Final = "importance"
_NUMBER: Final = re.compile(r"\s*[+-]?\d{1,32}(?:\.\d{0,32})?\s*")
# What a model thinks aloud before it answers; without an end, there is no answer behind it.
_THOUGHT: Final = re.compile(r"\s*<think(?:ing)?>(?:.*?</think(?:ing)?>|.*)", re.DOTALL)


class UnreadableAnswer(ValueError):  # noqa: N818 - it names what the answer is, as the run's reason does.
    """A model's answer that holds no list of lessons; asking again may help."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason: Final = reason


@dataclass(frozen=True, slots=True)
class ReadLessons:
    """At most 5 lessons in the answer's order, how many items were dropped, and how many repeats folded."""

    lessons: tuple[Lesson, ...]
    dropped: int
    folded: int


def read_lessons(answer: str) -> ReadLessons:
    """The lessons of an answer: plain JSON first, then a fenced block, then the first balanced list in it.

    Taken are a list, an object with `lessons` (or with one list whatever its name), a single lesson, objects
    one after another, and what is complete of any of these where the answer breaks off. An item is a bare
    string or an object with `text`, and `importance` in [0, 1]: beyond it is clamped, anything else than a
    number gives 0.5. Dropped and counted: items without a text of 1 to 10 000 code points, and what is left
    over after the fifth lesson. Repeats (by fingerprint) are folded into the first, with the highest
    importance. `null`, `[]` and `{}` are answers without lessons.

    Raises:
        UnreadableAnswer: there is no such list, or it is nested too deeply to be one.

    Source: SPEC.md section 4.
    """
    kept = answer[:MAX_ANSWER_CHARS]
    thought = _THOUGHT.match(kept)
    spoken = kept[thought.end() :] if thought else kept
    whole = parse_whole(spoken)
    if isinstance(whole, Unparsed):
        return _read_embedded(spoken)
    items = _items(whole)
    if items is None:
        raise UnreadableAnswer("the answer is JSON, but neither a list of lessons nor an object with one")
    return _read(items)


def _read_embedded(answer: str) -> ReadLessons:
    """The first list in the answer that has a lesson; else the first that says there is none."""
    empty: ReadLessons | None = None
    for value in find_lists(answer):
        items = _items(value)
        if items is None:
            continue
        found = _read(items)
        if found.lessons:
            return found
        if empty is None and not found.dropped:
            empty = found
    if empty is None:
        raise UnreadableAnswer("the answer holds no list of lessons that can be read")
    return empty


def _items(value: object) -> list[object] | None:
    """The items of whatever shape a list of lessons came in; None when it is none."""
    if value is None or value == {}:
        return []
    if not isinstance(value, dict):
        return value if isinstance(value, list) else None
    if _LIST_NAME in value:
        return _items_named(value[_LIST_NAME])
    if isinstance(value.get(_TEXT_NAME), str):
        return [value]
    lists = [item for item in value.values() if isinstance(item, list)]
    return lists[0] if len(lists) == 1 else None


def _items_named(listed: object) -> list[object] | None:
    """What stands under `lessons`: a list, or one lesson without a list around it."""
    if listed is None:
        return []
    if isinstance(listed, list):
        return listed
    return [listed] if isinstance(listed, dict | str) else None


def _read(items: Iterable[object]) -> ReadLessons:
    lessons: dict[bytes, Lesson] = {}
    dropped = folded = 0
    for item in items:
        lesson = _lesson(item)
        if lesson is None:
            dropped += 1
            continue
        identity = fingerprint(lesson.text)
        first = lessons.get(identity)
        if first is None:
            lessons[identity] = lesson
        else:
            folded += 1
            lessons[identity] = Lesson(first.text, max(first.importance, lesson.importance))
    kept = tuple(lessons.values())[: policy.DISTILL_MAX_LESSONS]
    return ReadLessons(lessons=kept, dropped=dropped + len(lessons) - len(kept), folded=folded)


def _lesson(item: object) -> Lesson | None:
    text = item.get(_TEXT_NAME) if isinstance(item, dict) else item
    if not isinstance(text, str):
        return None
    text = clean(text).strip()
    if len(text) > policy.MAX_TEXT_CHARS or not normal_form(text):
        return None
    importance = item.get(_IMPORTANCE_NAME) if isinstance(item, dict) else None
    return Lesson(text=text, importance=_importance(importance))


def _importance(value: object) -> float:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return policy.DEFAULT_IMPORTANCE
    if isinstance(value, float) and math.isnan(value):
        return policy.DEFAULT_IMPORTANCE
    return float(min(max(value, 0), 1))
