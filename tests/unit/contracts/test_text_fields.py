"""Texts on the wire (SPEC.md section 3, step 1): what PostgreSQL cannot hold is cleaned once, here."""

import json

import pytest
from pydantic import JsonValue

from lorebus_contracts.events import RecallRecorded, SaveRequested, SessionEnded
from lorebus_contracts.wire import Fault, WireError, parse
from tests.unit.contracts.bodies import ended_body, ended_with_input, recall_body, save_body

DIRTY_AND_CLEAN = [
    ("disk\0full", "diskfull"),  # Case c04.
    ("ship \ud83d it", "ship \ufffd it"),  # Case c05.
    ("ship \U0001f680 it", "ship \U0001f680 it"),
    ("Re\u0301serve\u0301", "R\u00e9serv\u00e9"),
    ("\ud83d\0\ude80", "\ufffd\ufffd"),
]


@pytest.mark.parametrize(("dirty", "clean"), DIRTY_AND_CLEAN)
def test_the_text_of_an_entry_is_cleaned(dirty: str, clean: str) -> None:
    event = parse(SaveRequested, save_body(entries=[{"text": dirty}, {"text": "unharmed"}]))

    assert [entry.text for entry in event.entries] == [clean, "unharmed"]


@pytest.mark.parametrize(("dirty", "clean"), DIRTY_AND_CLEAN)
def test_a_task_is_cleaned(dirty: str, clean: str) -> None:
    assert parse(SessionEnded, ended_body(task=dirty)).task == clean


@pytest.mark.parametrize(("dirty", "clean"), DIRTY_AND_CLEAN)
def test_a_cue_is_cleaned(dirty: str, clean: str) -> None:
    assert parse(RecallRecorded, recall_body(cue=dirty)).cue == clean


@pytest.mark.parametrize(("dirty", "clean"), DIRTY_AND_CLEAN)
def test_an_outcome_is_cleaned(dirty: str, clean: str) -> None:
    assert parse(SessionEnded, ended_body(outcome=dirty)).outcome == clean


@pytest.mark.parametrize(("dirty", "clean"), DIRTY_AND_CLEAN)
def test_every_string_of_a_trace_is_cleaned_keys_too(dirty: str, clean: str) -> None:
    call = {"tool": dirty, "input": {dirty: [dirty, {"inner": dirty}]}, "output": dirty}

    (heard,) = parse(SessionEnded, ended_body(trace=[call])).trace

    assert heard.tool == clean
    assert heard.input == {clean: [clean, {"inner": clean}]}
    assert heard.output == clean


def test_of_two_keys_that_cleaning_makes_one_the_later_stays() -> None:
    (heard,) = parse(SessionEnded, ended_with_input('{"a": 1, "a\\u0000": 2}')).trace

    assert heard.input == {"a": 2}


def test_a_cleaned_event_is_encoded_as_utf_8_without_u_0000() -> None:
    call = {"tool": "t", "input": {"\ud800": "\0"}, "output": "\udfff"}

    written = parse(SessionEnded, ended_body(task="\0\ud800", trace=[call])).model_dump_json()

    assert "\\u0000" not in written
    assert written.encode()


@pytest.mark.parametrize("ref", ["bo\0b", "bob\0", "bo\ud83db", "\udfff"])
def test_a_principal_ref_that_postgresql_cannot_hold_is_refused(ref: str) -> None:
    problem = "a principal reference may hold neither U+0000 nor a lone surrogate"

    with pytest.raises(WireError) as refused:
        parse(SaveRequested, save_body(principal_ref=ref, caller={"kind": "end_user", "ref": ref}))

    assert refused.value.faults == (Fault("caller.ref", problem), Fault("principal_ref", problem))


@pytest.mark.parametrize("ref", [" bob ", "Bob", "Re\u0301mi", "org:a|b&c=d.e", "a%b\\", "x" * 512])
def test_a_principal_ref_is_never_altered(ref: str) -> None:
    event = parse(SaveRequested, save_body(principal_ref=ref, caller={"kind": "actor", "ref": ref}))

    assert event.principal_ref == ref
    assert event.caller.ref == ref


def test_a_principal_ref_of_513_characters_is_refused_with_limit_and_length() -> None:
    with pytest.raises(WireError) as refused:
        parse(SaveRequested, save_body(principal_ref="x" * 513))

    assert refused.value.faults == (
        Fault("principal_ref", "a principal reference has at most 512 characters, not 513"),
    )


@pytest.mark.parametrize("ref", ["", "   ", "\u00a0\t\n"])
def test_a_blank_principal_ref_is_refused(ref: str) -> None:
    with pytest.raises(WireError) as refused:
        parse(SaveRequested, save_body(principal_ref=ref))

    assert refused.value.faults == (
        Fault("principal_ref", "is blank, which is no principal: leave it out or name one"),
    )


@pytest.mark.parametrize("ref", ["", "   "])
def test_a_blank_ref_of_an_actor_is_refused(ref: str) -> None:
    with pytest.raises(WireError) as refused:
        parse(SaveRequested, save_body(caller={"kind": "actor", "ref": ref}))

    assert refused.value.faults == (
        Fault("caller", "a caller of kind 'actor' needs a reference that is not blank"),
    )


def test_a_text_of_10_000_code_points_is_taken_whole() -> None:
    (entry,) = parse(SaveRequested, save_body(entries=[{"text": "\U0001f680" * 10_000}])).entries

    assert entry.text == "\U0001f680" * 10_000


def test_a_text_of_10_001_code_points_is_refused_with_limit_and_length() -> None:
    with pytest.raises(WireError) as refused:
        parse(SaveRequested, save_body(entries=[{"text": "fine"}, {"text": "\U0001f680" * 10_001}]))

    assert refused.value.faults == (
        Fault("entries.1.text", "is 10001 code points long; at most 10000 are kept, split it up"),
    )


def test_the_limit_counts_code_points_after_cleaning() -> None:
    (entry,) = parse(SaveRequested, save_body(entries=[{"text": "e\u0301" * 10_000 + "\0"}])).entries

    assert entry.text == "\u00e9" * 10_000


def test_a_task_of_100_001_code_points_is_refused_with_limit_and_length() -> None:
    assert len(parse(SessionEnded, ended_body(task="x" * 100_000)).task) == 100_000
    with pytest.raises(WireError) as refused:
        parse(SessionEnded, ended_body(task="x" * 100_001))

    assert refused.value.faults == (Fault("task", "is 100001 code points long; at most 100000 are taken"),)


@pytest.mark.parametrize("value", [5, True, None, ["likes"], {"text": "likes"}])
def test_a_text_that_is_no_string_is_refused(value: JsonValue) -> None:
    with pytest.raises(WireError) as refused:
        parse(SaveRequested, save_body(entries=[{"text": value}]))

    assert refused.value.faults == (Fault("entries.0.text", "should be a valid string"),)


@pytest.mark.parametrize("tool", ["", "\0"])
def test_a_tool_without_a_name_is_refused(tool: str) -> None:
    with pytest.raises(WireError) as refused:
        parse(SessionEnded, ended_body(trace=[{"tool": tool}]))

    (fault,) = refused.value.faults
    assert fault.path == "trace.0.tool"


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_the_input_of_a_call_may_be_64_levels_deep_and_no_deeper(opening: str, closing: str) -> None:
    def nested(levels: int) -> bytes:
        return ended_with_input(opening * levels + "1" * (opening != "[") + closing * levels)

    assert len(parse(SessionEnded, nested(64)).trace) == 1
    with pytest.raises(WireError) as refused:
        parse(SessionEnded, nested(65))
    assert refused.value.faults == (Fault("trace.0.input", "is nested deeper than 64 levels"),)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999", '{"a": [1, NaN]}'])
def test_the_input_of_a_call_holds_only_numbers_that_json_can_write(literal: str) -> None:
    with pytest.raises(WireError) as refused:
        parse(SessionEnded, ended_with_input(literal))

    assert refused.value.faults == (Fault("trace.0.input", "holds a number that is not finite"),)


@pytest.mark.parametrize(
    "value", [None, True, 5, -0.25, 10**400, "text", [], {}, [1, [2, {"a": None}]], {"a": {"b": [1.5]}}]
)
def test_the_input_of_a_call_is_kept_as_it_is(value: JsonValue) -> None:
    event = parse(SessionEnded, ended_with_input(json.dumps(value)))

    assert event.trace[0].input == value
    assert parse(SessionEnded, event.model_dump_json().encode()) == event
