"""Reading a model's answer (SPEC.md section 4, cases c15 to c21)."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebus_domain.distilling import Lesson
from lorebus_domain.reading import ReadLessons, UnreadableAnswer, read_lessons
from tests.unit.domain.examples import any_text

A = Lesson("Check the balance first.", 0.8)
B = Lesson("Ask before you cancel.", 0.5)
PLAIN = '[{"text": "Check the balance first.", "importance": 0.8}, {"text": "Ask before you cancel."}]'


def texts(answer: str) -> list[str]:
    return [lesson.text for lesson in read_lessons(answer).lessons]


@pytest.mark.parametrize(
    "answer",
    [
        PLAIN,
        f"\n\ufeff {PLAIN}\n",
        f'{{"lessons": {PLAIN}}}',
        f'{{"reasoning": "two of them", "memories": {PLAIN}}}',
        f"```json\n{PLAIN}\n```",
        f"```\n{PLAIN}",
        f"Here you are [as asked]:\n\n```JSON\n{PLAIN}\n```\nAnything else?",
        f"The lessons are {PLAIN}. That is all.",
        f"Sure! {{ok}} {PLAIN} [end]",
        f'<think>Maybe [{{"text": "draft"}}]?</think>\n{PLAIN}',
        PLAIN[:-1] + ",]",
        PLAIN.strip("[]").replace("}, {", "}\n{"),
    ],
)
def test_a_list_is_found_whatever_stands_around_it(answer: str) -> None:
    assert read_lessons(answer) == ReadLessons(lessons=(A, B), dropped=0, folded=0)


def test_a_plain_answer_whose_lesson_holds_a_fence_is_kept_whole() -> None:
    lesson = 'Wrap code like ```json\n["x"]\n``` in answers.'

    assert texts(json.dumps([{"text": lesson}])) == [lesson]


def test_a_fenced_answer_whose_lesson_holds_a_fence_is_kept_whole() -> None:
    lesson = 'Wrap code like ```json\n["x"]\n``` in answers.'

    assert texts(f"```json\n{json.dumps([{'text': lesson}])}\n```") == [lesson]


@pytest.mark.parametrize(
    "opening", ["", "```json\n", "Here:\n```\n", '{"lessons": ', '```json\n{"lessons": ']
)
def test_an_answer_that_stops_in_its_third_item_keeps_the_two_complete_ones(opening: str) -> None:
    answer = (
        opening + '[{"text": "one {a}"}, {"text": "two [b]", "importance": 1}, {"text": "three is [1, 2] or {'
    )

    assert read_lessons(answer) == ReadLessons(
        lessons=(Lesson("one {a}", 0.5), Lesson("two [b]", 1.0)), dropped=0, folded=0
    )


def test_an_answer_that_stops_inside_a_bare_string_keeps_no_half_of_it() -> None:
    assert texts('["whole", "ha') == ["whole"]


def test_of_nine_lessons_the_first_five_are_kept_and_four_counted() -> None:
    read = read_lessons(json.dumps([{"text": f"lesson {letter}"} for letter in "abcdefghi"]))

    assert [lesson.text[-1] for lesson in read.lessons] == ["a", "b", "c", "d", "e"]
    assert read.dropped == 4


def test_bad_items_do_not_take_the_place_of_good_ones() -> None:
    read = read_lessons(json.dumps([1, 2, 3, *"abcdef"]))

    assert [lesson.text for lesson in read.lessons] == ["a", "b", "c", "d", "e"]
    assert read.dropped == 4


def test_mixed_items_give_what_is_good_in_them() -> None:
    answer = (
        '[{"text": "one"}, "two", {"importance": 1}, ["nested"], "One.", null, {"text": " ;"}, {"text": 3}]'
    )

    assert read_lessons(answer) == ReadLessons(
        lessons=(Lesson("one", 0.5), Lesson("two", 0.5)), dropped=5, folded=1
    )


def test_a_repeat_keeps_the_first_text_and_the_highest_importance() -> None:
    answer = '[{"text": "Wait.", "importance": 0.2}, {"text": "b"}, {"text": "  WAIT ", "importance": 0.9}]'

    assert read_lessons(answer).lessons == (Lesson("Wait.", 0.9), Lesson("b", 0.5))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2", 1.0), ("8", 1.0), ("1.5", 1.0), ("-0.5", 0.0), ('"high"', 0.5), ("null", 0.5), ("NaN", 0.5),
        ("true", 0.5), ("false", 0.5), ("Infinity", 1.0), ("1e999", 1.0), ("[1]", 0.5), ('"0.7"', 0.7), ('"8"', 1.0),
        ('""', 0.5), ("0", 0.0), ("9" * 6_000, 1.0),
    ],
)  # fmt: skip
def test_an_importance_is_clamped_and_an_unreadable_one_is_a_half(written: str, read: float) -> None:
    (lesson,) = read_lessons(f'[{{"text": "a", "importance": {written}}}]').lessons

    assert lesson.importance == read


@pytest.mark.parametrize(
    "answer",
    [
        "null",
        "[]",
        "{}",
        '{"lessons": []}',
        '{"lessons": null}',
        "```json\n[]\n```",
        "```\nnull\n```",
        "Nothing: []",
    ],
)
def test_no_lessons_is_an_answer(answer: str) -> None:
    assert read_lessons(answer) == ReadLessons(lessons=(), dropped=0, folded=0)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "  ",
        "I am sorry, but I cannot help with that.",
        "There is nothing to learn (see [3] and {x}).",
        '"a sentence"',
        "42",
        "true",
        '{"error": "rate limited"}',
        '{"lessons": 3}',
        '<think>[{"text": "draft"}]',
        "[" * 100_000,
        '{"lessons":' * 100_000,
        "[" * 100_000 + "]" * 100_000,
    ],
)
def test_an_answer_without_a_list_is_unreadable_and_says_why(answer: str) -> None:
    with pytest.raises(UnreadableAnswer) as caught:
        read_lessons(answer)

    assert caught.value.reason.startswith("the answer ")


def test_an_item_that_is_no_json_is_dropped_and_those_around_it_kept() -> None:
    answer = '[{"text": "one"}, {\'text\': "two"}, {"text": "say "hi""}, {"text": "four"}]'

    assert read_lessons(answer) == ReadLessons(
        lessons=(Lesson("one", 0.5), Lesson("four", 0.5)), dropped=2, folded=0
    )


def test_a_lesson_of_more_than_10_000_code_points_is_dropped_and_not_cut() -> None:
    answer = json.dumps(["a" * 10_001, "b" * 10_000])

    assert read_lessons(answer) == ReadLessons(lessons=(Lesson("b" * 10_000, 0.5),), dropped=1, folded=0)


def test_a_lesson_is_cleaned() -> None:
    assert texts('["disk\\u0000full \\ud83d"]') == ["diskfull \ufffd"]


@pytest.mark.parametrize(
    "piece", ["[", "{}", "[1,", '["', "```json\n[", '{"a":1},', '"a",', '{"a":[', "{'a':1},", "``` "]
)
def test_an_answer_of_five_million_characters_is_read_or_refused(piece: str) -> None:
    answer = piece * (5_000_000 // len(piece))
    try:
        found = read_lessons(answer)
    except UnreadableAnswer:
        return

    assert len(found.lessons) <= 5


fragments = st.one_of(
    any_text,
    st.sampled_from(
        [
            "[",
            "]",
            "{",
            "}",
            '"',
            ",",
            ":",
            "\\",
            "```json\n",
            "```",
            '{"text": "a"}',
            '{"lessons": [',
            "null",
            "NaN",
        ]
    ),
)
values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | any_text,
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["text", "importance", "lessons", "x"]), inner)
    ),
)


@given(st.lists(fragments, max_size=12).map("".join) | values.map(json.dumps))
def test_whatever_a_model_says_gives_at_most_five_good_lessons_or_is_unreadable(answer: str) -> None:
    try:
        found = read_lessons(answer)
    except UnreadableAnswer:
        return

    assert len(found.lessons) <= 5
    assert all(lesson.text.strip() and 0 <= lesson.importance <= 1 for lesson in found.lessons)
    assert not any(math.isnan(lesson.importance) for lesson in found.lessons)


@given(st.lists(any_text, max_size=8), st.integers(0, 400))
def test_a_cut_answer_never_gives_a_lesson_that_the_whole_does_not_have(lessons: list[str], cut: int) -> None:
    answer = json.dumps([{"text": text} for text in lessons])
    try:
        found = read_lessons(answer[:cut])
    except UnreadableAnswer:
        return

    whole = [read_lessons(json.dumps([text])).lessons for text in lessons]
    assert {lesson.text for lesson in found.lessons} <= {lesson.text for one in whole for lesson in one}
