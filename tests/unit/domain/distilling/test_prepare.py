"""What a distiller gets to see of a session (SPEC.md section 4, cases c06, c18 and c22)."""

import json
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebus_domain.distil_text import cut_middle, prepare_input, prepare_text
from lorebus_domain.distilling import ToolCall, prepare
from tests.unit.domain.distilling.secrets_to_plant import PLANTED
from tests.unit.domain.distilling.sessions import real_sessions
from tests.unit.domain.examples import any_text

BLOCK: Final = "## Recalled memory (ranked for this task)\n\nnever fly on Mondays\n---\nask twice"
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(any_text, inner, max_size=30),
    max_leaves=60,
)


def call(output: str = "", given: object = None) -> ToolCall:
    return ToolCall(tool="lookup", input=given, output=output, is_error=False)


def test_the_last_25_calls_are_kept_and_the_rest_counted() -> None:
    prepared = prepare(outcome="failed", task="t", trace=[call(str(number)) for number in range(30)])

    assert [kept.output for kept in prepared.input.trace] == [str(number) for number in range(5, 30)]
    assert prepared.dropped_calls == 5


def test_a_short_session_comes_through_as_it_is() -> None:
    trace = (ToolCall("lookup", {"id": 7, "deep": [{"a": None}]}, "found", is_error=True),)

    prepared = prepare(outcome="success", task="Find it.", trace=trace)

    assert prepared.input.outcome == "success"
    assert prepared.input.task == "Find it."
    assert prepared.input.trace == trace
    assert prepared.redacted == {}
    assert prepared.dropped_calls == 0


def test_an_output_of_300_000_characters_is_cut_in_the_middle_to_the_stated_length() -> None:
    output = "start " + "x" * 300_000 + " the end"

    (kept,) = prepare(outcome="success", task="t", trace=[call(output)]).input.trace

    assert len(kept.output) <= 2_000
    assert kept.output.startswith("start ")
    assert kept.output.endswith(" the end")
    assert "characters cut ...]" in kept.output


def test_the_mark_says_how_many_code_points_were_cut() -> None:
    assert cut_middle("a" * 500 + "b" * 500, 128) == (
        "a" * 49 + "\n[... 903 characters cut ...]\n" + "b" * 48
    )


def test_a_text_of_the_stated_length_is_not_cut() -> None:
    assert prepare_text("a" * 2_000, 2_000).text == "a" * 2_000


def test_a_task_is_cut_at_10_000_code_points() -> None:
    task = prepare(outcome="success", task="a " * 3_000 + "b " * 3_000, trace=[]).input.task

    assert len(task) == 9_999
    assert task.startswith("a a a ")
    assert "\n[... 2032 characters cut ...]\n" in task


@pytest.mark.parametrize("where", ["task", "output", "input", "name of an argument"])
def test_a_recalled_block_is_taken_out_wherever_it_stands(where: str) -> None:
    values: dict[str, object] = {
        "input": {"context": [BLOCK]},
        "name of an argument": {BLOCK: 1},
    }
    prepared = prepare(
        outcome="success",
        task=BLOCK if where == "task" else "t",
        trace=[call(output=BLOCK if where == "output" else "", given=values.get(where))],
    )

    assert "Mondays" not in repr(prepared)


def test_a_recalled_block_across_the_window_of_a_long_output_is_taken_out() -> None:
    text = (
        "x" * 14_000
        + "\n## Recalled memory (ranked for this task)\n\n"
        + "never fly\n---\n" * 1_400
        + "\n# Next\n"
        + "y" * 9_000
    )

    assert "never fly" not in prepare_text(text, 2_000).text


def test_secrets_are_redacted_and_counted_per_kind() -> None:
    prepared = prepare(
        outcome="success",
        task="the password is hunter2",
        trace=[call(output="DB_PASSWORD=abc", given={"note": "ssn 078-05-1120"})],
    )

    assert prepared.input.task == "the password is [redacted:password]"
    assert prepared.input.trace[0].output == "DB_PASSWORD=[redacted:password]"
    assert prepared.input.trace[0].input == {"note": "ssn [redacted:us_ssn]"}
    assert prepared.redacted == {"password": 2, "us_ssn": 1}


def test_what_a_name_calls_a_secret_goes_whatever_it_looks_like() -> None:
    given = {
        "password": "plain",
        "clientSecret": 1234,
        "auth": {"X-Api-Key": ["a", "b"]},
        "note": "",
        "token": None,
    }

    prepared = prepare_input(given, 2_000)

    assert prepared.value == {
        "password": "[redacted:secret]",
        "clientSecret": "[redacted:secret]",
        "auth": {"X-Api-Key": ["[redacted:secret]", "[redacted:secret]"]},
        "note": "",
        "token": None,
    }
    assert prepared.counts == {"secret": 4}


def test_a_card_number_given_as_a_number_is_redacted() -> None:
    assert prepare_input({"card": 4111111111111111}, 2_000).value == {"card": "[redacted:card_number]"}


def test_a_long_string_is_cut_and_the_input_keeps_its_shape() -> None:
    value = prepare_input({"path": "a.py", "content": "word " * 60_000}, 2_000).value

    assert isinstance(value, dict)
    assert value["path"] == "a.py"
    assert str(value["content"]).startswith("word word")
    assert len(json.dumps(value)) <= 2_000


def test_an_input_of_very_many_parts_becomes_the_cut_text_of_its_json() -> None:
    value = prepare_input({"rows": [{"id": number} for number in range(100_000)]}, 2_000).value

    assert isinstance(value, str)
    assert value.startswith('{"rows": [{"id": 0}')
    assert value.endswith('{"id": 99999}]}')
    assert len(value) <= 2_000


def test_an_input_nested_a_thousand_levels_deep_is_cut_at_the_64th() -> None:
    deep: object = "bottom"
    for _ in range(1_000):
        deep = [deep]

    value = prepare_input(deep, 2_000).value

    assert json.dumps(value) == "[" * 64 + '"[deeper levels cut]"' + "]" * 64


def test_a_number_too_long_to_be_written_out_is_named_by_its_size() -> None:
    assert prepare_input([10**6_000], 2_000).value == ["[number of 19932 bits]"]


def test_a_session_without_calls_is_blank_whatever_its_task() -> None:
    assert prepare(outcome="success", task=" \n", trace=[]).input.is_blank
    assert prepare(outcome="success", task=BLOCK, trace=[]).input.is_blank
    assert prepare(outcome="success", task="t", trace=[]).input.is_blank
    assert not prepare(outcome="success", task="", trace=[call()]).input.is_blank


@pytest.mark.parametrize("kind", PLANTED)
def test_a_secret_at_the_edge_of_what_is_looked_at_does_not_survive_in_part(kind: str) -> None:
    text, hidden = PLANTED[kind]
    parts = [hidden[start : start + 8] for start in range(0, max(1, len(hidden) - 8), 4)]
    for offset in (16_370, 30_000, 283_606):
        output = ". " * (offset // 2) + text + " ." * ((300_000 - offset) // 2)

        kept = prepare_text(output, 16_000).text

        assert not any(part in kept for part in parts), offset


def test_a_long_run_of_secrets_does_not_bring_the_edge_of_a_window_into_view() -> None:
    text, hidden = PLANTED["github_token"]
    output = (text + " ") * 10_000

    kept = prepare_text(output, 16_000).text

    assert hidden[:8] not in kept
    assert hidden[-8:] not in kept


def test_secrets_planted_in_real_traces_never_come_through() -> None:
    planted = list(PLANTED.values())
    for number, session in enumerate(real_sessions()):
        texts = [planted[(number + step) % len(planted)] for step in range(4)]
        trace = [
            ToolCall(
                old.tool,
                {"was": old.input, "note": f"see {texts[0][0]}"},
                f"{old.output[:900]}\n{texts[1][0]}\n{old.output[900:]}",
                old.is_error,
            )
            for old in session.trace
        ]

        prepared = prepare(outcome=session.outcome, task=f"{session.task}\n{texts[2][0]}", trace=trace)

        assert not any(hidden in repr(prepared.input) for _, hidden in texts)
        assert sum(prepared.redacted.values()) >= 1 + min(len(trace), 25)


@given(any_text, st.lists(st.tuples(any_text, json_values, st.booleans()), max_size=30))
def test_a_prepared_session_never_exceeds_its_bounds(
    task: str, calls: list[tuple[str, object, bool]]
) -> None:
    trace = [ToolCall("lookup", given, text * 100, flag) for text, given, flag in calls]

    prepared = prepare(outcome="failed", task=task * 1_000, trace=trace)

    assert len(prepared.input.task) <= 10_000
    assert len(prepared.input.trace) == min(len(trace), 25)
    assert prepared.dropped_calls == max(0, len(trace) - 25)
    for kept in prepared.input.trace:
        assert len(kept.output) <= 2_000
        given_input = kept.input
        text = given_input if isinstance(given_input, str) else json.dumps(given_input, ensure_ascii=False)
        assert len(text) <= 2_000


@given(any_text.map(lambda text: text * 20), st.integers(128, 400))
def test_a_cut_text_is_the_beginning_and_the_end_of_the_whole(text: str, limit: int) -> None:
    cut = cut_middle(text, limit)

    assert len(cut) <= limit
    if len(text) <= limit:
        assert cut == text
    else:
        beginning, _, rest = cut.partition("\n[... ")
        count, _, end = rest.partition(" characters cut ...]\n")
        assert text.startswith(beginning)
        assert text.endswith(end)
        assert int(count) == len(text) - len(beginning) - len(end)
