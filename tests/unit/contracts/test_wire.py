"""Reading a body: what is no JSON object of ours is refused with what is wrong, and never echoed."""

import json

import pytest

from lorebus_contracts.events import SaveRequested, SessionEnded, SessionRated
from lorebus_contracts.wire import Fault, WireError, parse
from tests.unit.contracts.bodies import (
    ENVELOPE,
    ended_body,
    ended_with_input,
    save_body,
    save_with_importance,
    without,
)

CANARY = "kanarienvogel"


def faults_of(raw: bytes, model: type[SaveRequested | SessionEnded | SessionRated]) -> tuple[Fault, ...]:
    with pytest.raises(WireError) as refused:
        parse(model, raw)
    return refused.value.faults


@pytest.mark.parametrize("raw", [b"", b"  \r\n\t "])
def test_an_empty_body_is_called_empty(raw: bytes) -> None:
    assert faults_of(raw, SaveRequested) == (Fault("", "is empty; a JSON object was expected"),)


def test_text_that_is_no_json_is_refused_with_its_place() -> None:
    raw = b'{"event_id":\n kanarienvogel}'

    assert faults_of(raw, SaveRequested) == (Fault("", "is not JSON: Expecting value at line 2, column 2"),)


def test_a_second_document_after_the_first_is_refused() -> None:
    (fault,) = faults_of(save_body() + b' {"more": 1}', SaveRequested)

    assert fault.problem.startswith("is not JSON: Extra data at line 1, column ")


def test_a_body_that_is_cut_off_is_refused() -> None:
    (fault,) = faults_of(save_body()[:-1], SaveRequested)

    assert fault.problem.startswith("is not JSON: ")


def test_bytes_that_are_not_utf_8_are_refused_with_their_place() -> None:
    raw = b'{"task": "caf\xe9"}'

    assert faults_of(raw, SessionEnded) == (Fault("", "is not UTF-8 at byte 13"),)


def test_a_surrogate_encoded_as_bytes_is_not_utf_8() -> None:
    raw = b'{"task": "\xed\xa0\x80"}'

    assert faults_of(raw, SessionEnded) == (Fault("", "is not UTF-8 at byte 10"),)


def test_utf_16_is_refused() -> None:
    assert faults_of(save_body().decode().encode("utf-16"), SaveRequested) == (
        Fault("", "is not UTF-8 at byte 0"),
    )


def test_a_byte_order_mark_is_refused() -> None:
    (fault,) = faults_of(b"\xef\xbb\xbf" + save_body(), SaveRequested)

    assert "BOM" in fault.problem


@pytest.mark.parametrize(
    "raw",
    [
        b'{"origin": "runner", "origin": "import"}',
        b'{"entries": [{"text": "a", "text": "b"}]}',
        ended_with_input('{"deep": [{"a": 1, "a": 1}]}'),
    ],
)
def test_a_key_that_stands_twice_in_one_object_is_refused(raw: bytes) -> None:
    assert faults_of(raw, SaveRequested) == (
        Fault("", "holds a key twice in one object; each may stand once"),
    )


def test_the_same_key_in_two_objects_is_fine() -> None:
    event = parse(SaveRequested, save_body(entries=[{"text": "a"}, {"text": "b"}]))

    assert [entry.text for entry in event.entries] == ["a", "b"]


@pytest.mark.parametrize("literal", ["[" * 10_000 + "]" * 10_000, '{"a":' * 10_000 + "1" + "}" * 10_000])
def test_ten_thousand_levels_are_refused_without_a_crash(literal: str) -> None:
    assert faults_of(ended_with_input(literal), SessionEnded) == (Fault("", "is nested too deep to be read"),)


def test_ten_thousand_opening_brackets_are_refused_without_a_crash() -> None:
    assert faults_of(b"[" * 10_000, SessionEnded) == (Fault("", "is nested too deep to be read"),)


@pytest.mark.parametrize("depth", [70, 500, 900, 970, 990])
def test_any_depth_that_the_parser_survives_is_refused_by_the_field(depth: int) -> None:
    (fault,) = faults_of(ended_with_input("[" * depth + "]" * depth), SessionEnded)

    assert fault in {
        Fault("trace.0.input", "is nested deeper than 64 levels"),
        Fault("", "is nested too deep to be read"),
    }


@pytest.mark.parametrize("raw", [save_with_importance("1" * 5_000), ended_with_input("-" + "9" * 5_000)])
def test_a_number_too_long_for_python_is_refused(raw: bytes) -> None:
    assert faults_of(raw, SaveRequested) == (Fault("", "holds a number that is too long to be read"),)


@pytest.mark.parametrize("raw", [b"[]", b'"kanarienvogel"', b"5", b"null", b"true"])
def test_json_that_is_no_object_is_refused(raw: bytes) -> None:
    assert faults_of(raw, SaveRequested) == (Fault("", "should be a JSON object"),)


def test_an_unknown_key_is_refused_with_its_path() -> None:
    entries = [{"text": "a"}, {"text": "b", "principal_ref": CANARY}]

    assert faults_of(save_body(entries=entries, tenant=CANARY), SaveRequested) == (
        Fault("entries.1.principal_ref", "is not a known key"),
        Fault("tenant", "is not a known key"),
    )


def test_a_key_that_no_schema_of_ours_could_hold_is_not_repeated() -> None:
    assert faults_of(save_body(**{f"{CANARY} said: {'x' * 1000}": 1}), SaveRequested) == (
        Fault("?", "is not a known key"),
    )


def test_a_missing_key_is_required() -> None:
    assert faults_of(without(save_body(), "principal_ref"), SaveRequested) == (
        Fault("principal_ref", "is required"),
    )


def test_a_body_with_hundreds_of_faults_is_told_twenty() -> None:
    entries = [{"text": 5, "weight": 1} for _ in range(100)]

    faults = faults_of(save_body(entries=entries), SaveRequested)

    assert len(faults) == 20
    assert faults[0] == Fault("entries.0.text", "should be a valid string")
    assert faults[19] == Fault("entries.9.weight", "is not a known key")


def test_bad_entries_are_not_besides_called_too_few() -> None:
    assert faults_of(save_body(entries=[{"text": 5}]), SaveRequested) == (
        Fault("entries.0.text", "should be a valid string"),
    )


def test_no_entry_at_all_is_too_few() -> None:
    (fault,) = faults_of(save_body(entries=[]), SaveRequested)

    assert fault.path == "entries"
    assert "at least 1" in fault.problem


def test_a_hundred_entries_are_taken_and_one_more_is_not() -> None:
    assert len(parse(SaveRequested, save_body(entries=[{"text": "a"}] * 100)).entries) == 100
    (fault,) = faults_of(save_body(entries=[{"text": "a"}] * 101), SaveRequested)
    assert fault.path == "entries"
    assert "at most 100" in fault.problem


BAD_VALUES: tuple[object, ...] = (
    CANARY,
    [CANARY],
    {"unknown": CANARY},
    f"{CANARY}\ud800",
    f"{CANARY}\0",
    f"2026-09-01T11:00:00{CANARY}",
    f"{CANARY}-0000-4000-8000-0000000000a1",
    CANARY * 20_000,
)


def told_of(raw: bytes, model: type[SaveRequested | SessionEnded]) -> str:
    """What a refusal says; nothing if the body is taken."""
    try:
        parse(model, raw)
    except WireError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("key", [*ENVELOPE, "caller", "principal_ref", "entries", "origin", "provenance"])
@pytest.mark.parametrize("value", BAD_VALUES)
def test_a_fault_never_repeats_a_value_of_a_save(key: str, value: object) -> None:
    told = told_of(save_body(**{key: value}), SaveRequested)

    assert CANARY not in told
    assert len(told) < 1_000


@pytest.mark.parametrize("key", ["caller", "outcome", "task", "step_count", "trace"])
@pytest.mark.parametrize("value", BAD_VALUES)
def test_a_fault_never_repeats_a_value_of_a_session(key: str, value: object) -> None:
    told = told_of(ended_body(**{key: value}), SessionEnded)

    assert CANARY not in told
    assert len(told) < 1_000


@pytest.mark.parametrize("value", BAD_VALUES)
@pytest.mark.parametrize("key", ["tool", "output", "is_error"])
def test_a_fault_never_repeats_a_value_of_a_trace(key: str, value: object) -> None:
    assert CANARY not in told_of(ended_body(trace=[{"tool": "search", key: value}]), SessionEnded)


def test_every_fault_can_be_sent_as_utf_8() -> None:
    raw = json.dumps({"\ud800": 1, "caller": {"\udfff": "\ud800"}, "origin": "\ud800"}).encode()

    for fault in faults_of(raw, SaveRequested):
        assert (fault.path + fault.problem).encode()


def test_the_text_of_a_refusal_names_each_fault() -> None:
    with pytest.raises(WireError) as refused:
        parse(SessionRated, json.dumps({**ENVELOPE, "quality_score": 2}).encode())

    assert str(refused.value) == "quality_score: should be less than or equal to 1"
