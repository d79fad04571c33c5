"""What a session was handed is taken out wherever it stands, heading or not."""

import json
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from lorebus_domain.distilling import ToolCall, prepare
from lorebus_domain.recalled_texts import RecalledTexts

FIRST: Final = 'Say "please" before `pay`.\nIt helps.'
SECOND: Final = "Réserver avant midi, toujours."
MEMORY: Final = f"{FIRST}\n---\n{SECOND}"


def prepared(task: str, value: object, output: str, *recalled: str) -> tuple[str, object, str]:
    trace = [ToolCall("recall", value, output, is_error=False)]
    session = prepare(outcome="success", task=task, trace=trace, recalled=RecalledTexts(recalled)).input
    return session.task, session.trace[0].input, session.trace[0].output


def test_texts_without_a_heading_are_taken_out_of_task_input_and_output() -> None:
    task, value, output = prepared(
        f"Known:\n{MEMORY}\nNow pay.", {"notes": [f"> {SECOND}"]}, f"I read: {FIRST} So I did.", FIRST, SECOND
    )

    assert task == "Known:\n\n---\n\nNow pay."
    assert value == {"notes": ["> "]}
    assert output == "I read:  So I did."


def test_a_tools_answer_in_json_holds_none_of_them_either() -> None:
    for escaped in (True, False):
        answer = json.dumps({"memory": MEMORY, "count": 2}, ensure_ascii=escaped)

        _, _, output = prepared("", {}, answer, FIRST, SECOND)

        assert json.loads(output) == {"memory": "\n---\n", "count": 2}


def test_a_text_that_holds_another_goes_whole() -> None:
    longer = f"{SECOND} Sauf le dimanche."

    _, _, output = prepared("", {}, f"a {longer} b", SECOND, longer)

    assert output == "a  b"


def test_a_short_text_stays_because_it_may_stand_there_by_itself() -> None:
    _, _, output = prepared("", {}, "It is paid now.", "paid")

    assert output == "It is paid now."


def test_what_was_not_recalled_stays() -> None:
    assert prepared("task", {"a": [1, None, "x"]}, "output", FIRST) == (
        "task",
        {"a": [1, None, "x"]},
        "output",
    )


@given(st.text(), st.lists(st.text(min_size=16, max_size=60), min_size=1, max_size=3))
def test_whatever_stands_around_none_of_them_is_left_where_it_was(around: str, texts: list[str]) -> None:
    recalled = RecalledTexts(texts)
    longest = max(texts, key=len)

    assert longest not in recalled.taken_out(longest)
    assert len(recalled.taken_out(f"{around}{longest}{around}")) <= 2 * len(around)
