"""What the rules learn from a trace, one kind of lesson after the other (SPEC.md section 4)."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebus_domain.distilling import DistillInput, ToolCall
from lorebus_domain.trace_rules import RULES_NAME, RULES_VERSION, distil_by_rules
from tests.unit.domain.examples import any_text

NOT_ENOUGH: Final = "Error: gift card balance is not enough"
GONE: Final = "Error: flight HAT030 not available on date 2024-05-13"


def done(tool: str, output: str = "ok", **given: object) -> ToolCall:
    return ToolCall(tool, given, output, is_error=False)


def failed(tool: str, output: str, **given: object) -> ToolCall:
    return ToolCall(tool, given, output, is_error=True)


def lessons(*trace: ToolCall, outcome: str = "failed", task: str = "") -> list[tuple[str, float]]:
    found = distil_by_rules(DistillInput(outcome=outcome, task=task, trace=trace))
    return [(lesson.text, lesson.importance) for lesson in found]


def test_the_rules_have_a_name_and_a_version() -> None:
    assert (RULES_NAME, RULES_VERSION) == ("trace-rules", 1)


def test_nothing_happened_and_nothing_is_learnt() -> None:
    assert lessons(task="Cancel my flight.") == []
    assert lessons(done("think"), done("transfer"), outcome="success") == []


def test_an_error_put_right_by_another_value_names_the_argument_and_no_value() -> None:
    found = lessons(
        failed("pay", NOT_ENOUGH, order="A7", card="gift_1"),
        done("pay", order="A7", card="visa_2"),
    )

    assert found == [
        (
            (
                'When `pay` fails with "gift card balance is not enough", call it again with another '
                "value for `card`: that worked."
            ),
            0.7,
        ),
    ]


def test_an_error_that_came_more_than_once_before_it_was_put_right_counts_more() -> None:
    found = lessons(
        failed("pay", NOT_ENOUGH, order="A7", card="gift_1"),
        failed("pay", NOT_ENOUGH, order="A7", card="gift_2"),
        done("pay", order="B8", card="visa_2"),
    )

    assert found == [
        (
            (
                'When `pay` fails with "gift card balance is not enough", call it again with other '
                "values for `card` and `order`: that worked."
            ),
            0.8,
        ),
    ]


def test_an_argument_added_and_one_dropped_are_named() -> None:
    found = lessons(
        failed("pay", NOT_ENOUGH, order="A7", card="x"),
        done("pay", order="A7", payment_id="x"),
    )

    assert found == [
        (
            (
                'When `pay` fails with "gift card balance is not enough", call it again with '
                "`payment_id` given as well, without `card`: that worked."
            ),
            0.7,
        ),
    ]


def test_the_only_argument_of_a_tool_was_corrected() -> None:
    found = lessons(failed("edit", "new syntax error(s) introduced", command="a"), done("edit", command="b"))

    assert found == [
        (
            (
                'When `edit` fails with "new syntax errors introduced", correct its `command` and '
                "call it again: that worked."
            ),
            0.5,
        ),
    ]


def test_an_error_put_right_by_other_tools_names_them() -> None:
    found = lessons(
        failed("python", "ValueError: bad input", command="run"),
        done("open", path="a"),
        done("think", thought="hm"),
        done("edit", text="b"),
        done("python", command="run"),
    )

    assert found == [
        (
            'When `python` fails with "ValueError: bad input", the same call can work after `open`, then `edit`.',
            0.6,
        ),
    ]


def test_an_error_that_went_away_by_itself() -> None:
    found = lessons(failed("get", "Error: request timed out", id=1), done("get", id=1))

    assert found == [
        (
            'When `get` fails with "request timed out", the same call may simply work when it is made again.',
            0.4,
        )
    ]


def test_an_error_that_came_again_after_a_success_was_not_put_right() -> None:
    found = lessons(
        failed("pay", NOT_ENOUGH, card="a", order="x"),
        done("pay", card="b", order="x"),
        failed("pay", NOT_ENOUGH, card="a", order="x"),
    )

    assert found == [
        (
            (
                'When `pay` fails with "gift card balance is not enough", the same call fails again: '
                "change its input, or do something else first."
            ),
            0.7,
        ),
        (
            (
                'Do not end with `pay` still failing with "gift card balance is not enough": a '
                "session that did so failed."
            ),
            0.6,
        ),
    ]


def test_an_error_left_open_in_a_session_that_ended_well_tells_how_it_ended() -> None:
    found = lessons(
        failed("change", GONE, flights=["A1"], cabin="economy"),
        failed("change", GONE, flights=["A2"], cabin="economy"),
        done("transfer", summary="Sofia needs help."),
        outcome="success",
    )

    assert found == [
        (
            (
                'When `change` fails with "flight … not available on date …" and another value for '
                "`flights` made no difference, ending with `transfer` can be right: a session that "
                "did so ended well."
            ),
            0.7,
        ),
    ]


def test_an_error_as_the_last_word_of_a_session_that_ended_well() -> None:
    found = lessons(done("get", id="x"), failed("change", GONE, flight="A1"), outcome="success")

    assert found == [
        (
            (
                'When `change` fails with "flight … not available on date …", it can be right to '
                "leave it at that: a session that did so ended well."
            ),
            0.4,
        ),
    ]


def test_an_error_text_at_another_tool_only_once_is_a_stray() -> None:
    found = lessons(
        failed("get", NOT_ENOUGH, id="1"),
        done("get", id="2"),
        failed("pay", NOT_ENOUGH, card="a", order="x"),
        failed("pay", NOT_ENOUGH, card="b", order="x"),
        done("pay", card="c", order="x"),
    )

    assert [text for text, _ in found if "`get`" in text] == []


def test_a_call_flagged_as_an_error_whose_output_names_none_teaches_nothing() -> None:
    assert (
        lessons(
            failed("open", "[File: a.py (3 lines total)]\n1: x", path="a"), done("think"), outcome="success"
        )
        == []
    )


def test_another_tool_found_something_with_the_same_arguments() -> None:
    found = lessons(
        done("search_direct", "[]", origin="DEN", date="2024-05-27"),
        done("search_onestop", '[{"a": 1}]', origin="DEN", date="2024-05-27"),
    )

    assert found == [
        (
            (
                "When `search_direct` comes back empty, try `search_onestop` with the same `date` and"
                " `origin`: it can find something."
            ),
            0.6,
        ),
    ]


def test_the_same_tool_found_something_with_one_other_argument() -> None:
    found = lessons(
        done("search", "[]", origin="DEN", date="2024-05-27"),
        done("search", "[]", origin="DEN", date="2024-05-28"),
        done("search", "[1]", origin="DEN", date="2024-05-29"),
    )

    assert found == [("When `search` comes back empty, another value for `date` can find something.", 0.4)]


def test_the_order_of_a_success_is_told_with_runs_and_loops_once_and_without_thoughts() -> None:
    found = lessons(
        done("get_user", id="u"),
        done("think", thought="hm"),
        done("edit", text="a b"),
        done("run", text="a b"),
        done("edit", text="a c"),
        done("run", text="a c"),
        done("submit"),
        done("submit"),
        outcome="success",
    )

    assert found == [
        (
            (
                "For a task that ends with `submit`, the order that worked: `get_user`, then `edit`, "
                "then `run`, then `submit`."
            ),
            0.5,
        ),
    ]


def test_a_tool_called_for_each_of_several_things_before_the_next_one() -> None:
    asked = [done("get_order", order_id=order) for order in ("A7", "B8", "C9")]

    found = lessons(*asked, done("cancel", order_id="A7"), outcome="success")

    assert found == [
        ("Call `get_order` for each `order_id` before `cancel`: a session that did so ended well.", 0.4)
    ]


def test_a_failed_session_that_teaches_nothing_else_tells_where_it_stopped() -> None:
    assert lessons(done("get_order", order_id="A"), done("cancel", order_id="A")) == [
        (
            (
                "`cancel` going through is not by itself the end of a task: a session that stopped "
                "right after it failed."
            ),
            0.3,
        ),
    ]


def test_a_failed_session_that_only_looked_things_up_says_so() -> None:
    assert lessons(
        done("get_user", id="u"), done("get_order", order_id="A"), done("calculate", expression="1+1")
    ) == [
        (
            ("`get_user` and `get_order` alone were not enough: a session that called nothing else failed."),
            0.3,
        ),
    ]


def test_a_failed_session_that_searched_at_large_says_so() -> None:
    found = lessons(*(done("search", date=f"d{n}", origin=f"o{n}") for n in range(6)))

    assert found == [
        (
            "Calling `search` many times in a row with other values for `date` and `origin` did not lead to success.",
            0.2,
        )
    ]


def test_the_five_most_important_lessons_are_kept() -> None:
    trace = [call for n in "abcdefg" for call in (failed(n, NOT_ENOUGH, x=1, y=1), done(n, x=2, y=1))]

    found = lessons(*trace)

    assert len(found) == 5
    assert [importance for _, importance in found] == [0.7] * 5


@pytest.mark.parametrize(
    "name", ["sofia_kim_7287", "a@b.c", "Two words", "x" * 65, "", "naïve", "4OG6T3", "key\n"]
)
def test_a_tool_or_argument_whose_name_may_be_a_record_is_not_named(name: str) -> None:
    odd_tool = lessons(failed(name, NOT_ENOUGH, a=1, b=1), done(name, a=2, b=1))
    odd_name = lessons(
        ToolCall("pay", {name: 1, "a": 1}, NOT_ENOUGH, is_error=True),
        ToolCall("pay", {name: 2, "a": 1}, "ok", is_error=False),
    )

    assert odd_tool == []
    assert odd_name == [
        (
            (
                'When `pay` fails with "gift card balance is not enough", call it again with a '
                "corrected input: that worked."
            ),
            0.5,
        ),
    ]


def test_an_argument_named_like_somebody_in_the_task_is_not_named() -> None:
    found = lessons(
        failed("score", "Error: value is not valid", sofia=1, omar=1),
        done("score", sofia=2, omar=1),
        task="Give Sofia 5 points.",
    )

    assert "sofia" not in repr(found)


def test_arguments_in_a_json_string_are_read() -> None:
    found = lessons(
        ToolCall("pay", '{"card": "a", "order": 1}', NOT_ENOUGH, is_error=True),
        ToolCall("pay", '{"card": "b", "order": 1}', "ok", is_error=False),
    )

    assert [text for text, _ in found if "`card`" in text] != []


calls = st.builds(
    ToolCall,
    tool=st.sampled_from(["get", "pay", "think", "search_direct"]) | any_text,
    input=st.dictionaries(st.sampled_from(["a", "b", "card_id"]) | any_text, st.integers(0, 2) | any_text)
    | any_text,
    output=st.sampled_from([NOT_ENOUGH, GONE, "[]", "ok"]) | any_text,
    is_error=st.booleans(),
)


@given(st.lists(calls, max_size=25), st.sampled_from(["success", "failed"]), any_text)
def test_any_session_gives_at_most_five_lessons_and_always_the_same(
    trace: list[ToolCall], outcome: str, task: str
) -> None:
    session = DistillInput(outcome=outcome, task=task, trace=tuple(trace))

    found = distil_by_rules(session)

    assert len(found) <= 5
    assert distil_by_rules(session) == found
    assert all(0 <= lesson.importance <= 1 for lesson in found)
