"""Numbers, ids and times on the wire: only what is plainly one is taken (case c23)."""

import json
from datetime import UTC, datetime
from uuid import UUID

import pytest

from lorebus_contracts.events import (
    Event,
    PruneRequested,
    RecallRecorded,
    SaveRequested,
    SessionEnded,
    SessionRated,
)
from lorebus_contracts.wire import Fault, WireError, parse
from tests.unit.contracts.bodies import ENVELOPE, ended_body, recall_body, save_body, save_with_importance

NOT_RFC_3339 = "should be a date and time as RFC 3339 says"


def faults_of(model: type[Event], raw: bytes) -> tuple[Fault, ...]:
    with pytest.raises(WireError) as refused:
        parse(model, raw)
    return refused.value.faults


@pytest.mark.parametrize(
    ("literal", "problem"),
    [
        ("NaN", "should be a finite number"),
        ("Infinity", "should be a finite number"),
        ("-Infinity", "should be a finite number"),
        ("1e999", "should be a finite number"),
        ("true", "should be a valid number"),
        ('"0.7"', "should be a valid number"),
        ("null", "should be a valid number"),
        ("[]", "should be a valid number"),
        ("1" + "0" * 400, "should be a valid number"),
        ("1.0000001", "should be less than or equal to 1"),
        ("-0.1", "should be greater than or equal to 0"),
        ("8", "should be less than or equal to 1"),
    ],
)
def test_an_importance_that_is_no_number_in_0_to_1_is_refused(literal: str, problem: str) -> None:
    assert faults_of(SaveRequested, save_with_importance(literal)) == (
        Fault("entries.0.importance", problem),
    )


@pytest.mark.parametrize(("literal", "importance"), [("1", 1.0), ("0", 0.0), ("0.05", 0.05), ("1e-3", 0.001)])
def test_an_importance_may_be_written_as_any_json_number(literal: str, importance: float) -> None:
    (entry,) = parse(SaveRequested, save_with_importance(literal)).entries

    assert entry.importance == importance
    assert type(entry.importance) is float


def test_an_importance_left_out_is_a_half() -> None:
    (entry,) = parse(SaveRequested, save_body(entries=[{"text": "likes aisle seats"}])).entries

    assert entry.importance == 0.5


@pytest.mark.parametrize("score", ["0.7", True, None, 1.5, -0.01])
def test_a_rating_that_is_no_number_in_0_to_1_is_refused(score: object) -> None:
    (fault,) = faults_of(SessionRated, json.dumps({**ENVELOPE, "quality_score": score}).encode())

    assert fault.path == "quality_score"


@pytest.mark.parametrize("count", [-1, 2.5, "3", True, None, 2**31, 10**300])
def test_a_count_that_is_no_whole_number_is_refused(count: object) -> None:
    (fault,) = faults_of(SessionEnded, ended_body(step_count=count))

    assert fault.path == "step_count"


def test_a_number_without_a_fraction_is_whole_however_it_is_written() -> None:
    assert parse(SessionEnded, ended_body(step_count=2.0)).step_count == 2
    assert parse(RecallRecorded, recall_body(top_k=10.0)).top_k == 10


@pytest.mark.parametrize("cap", [-1, 0.5, "0"])
def test_a_cap_that_is_no_whole_number_is_refused(cap: object) -> None:
    body = {key: value for key, value in ENVELOPE.items() if key != "session_uuid"}

    (fault,) = faults_of(PruneRequested, json.dumps({**body, "max_entries": cap}).encode())

    assert fault.path == "max_entries"


@pytest.mark.parametrize("top_k", [0, 1001, "10", 10.5, True])
def test_a_top_k_outside_1_to_1000_is_refused(top_k: object) -> None:
    (fault,) = faults_of(RecallRecorded, recall_body(top_k=top_k))

    assert fault.path == "top_k"


@pytest.mark.parametrize("flag", ["yes", "true", 1, 0, None])
def test_a_flag_that_is_neither_true_nor_false_is_refused(flag: object) -> None:
    assert faults_of(SessionEnded, ended_body(trace=[{"tool": "t", "is_error": flag}])) == (
        Fault("trace.0.is_error", "should be a valid boolean"),
    )


@pytest.mark.parametrize("value", [5, 2**127, 1.5, True, None, ["a"], {}])
def test_an_id_that_is_no_string_is_refused(value: object) -> None:
    assert faults_of(SaveRequested, save_body(event_id=value)) == (Fault("event_id", "should be a string"),)


@pytest.mark.parametrize("value", ["", "5", "bob", "00000000-0000-4000-8000-0000000000", "\ud800"])
def test_an_id_that_is_no_uuid_is_refused(value: str) -> None:
    (fault,) = faults_of(SaveRequested, save_body(session_uuid=value))

    assert fault.path == "session_uuid"


def test_an_id_is_the_same_in_upper_case() -> None:
    event = parse(SaveRequested, save_body(session_uuid="0199F1A2-0000-7000-8000-00000000ABCD"))

    assert event.session_uuid == UUID("0199f1a2-0000-7000-8000-00000000abcd")


@pytest.mark.parametrize("value", [1_700_000_000, 1_700_000_000.5, True, None, []])
def test_a_time_that_is_no_string_is_refused(value: object) -> None:
    assert faults_of(SaveRequested, save_body(occurred_at=value)) == (
        Fault("occurred_at", "should be a string"),
    )


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("2026-09-01T11:00:00", "should have timezone info"),
        ("2026-09-01", "should have timezone info"),
        ("1700000000", NOT_RFC_3339),
        ("1700000000.5", NOT_RFC_3339),
        ("yesterday", NOT_RFC_3339),
        ("", NOT_RFC_3339),
        ("2026-13-01T11:00:00Z", NOT_RFC_3339),
        ("0001-01-01T00:00:00+14:00", "is before the year 1 or after the year 9999 in UTC"),
        ("9999-12-31T23:59:59-14:00", "is before the year 1 or after the year 9999 in UTC"),
    ],
)
def test_a_time_without_an_offset_or_out_of_range_is_refused(value: str, problem: str) -> None:
    assert faults_of(SaveRequested, save_body(occurred_at=value)) == (Fault("occurred_at", problem),)


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2026-09-01T11:00:00Z", datetime(2026, 9, 1, 11, tzinfo=UTC)),
        ("2026-09-01T13:00:00.250000+02:00", datetime(2026, 9, 1, 11, 0, 0, 250_000, tzinfo=UTC)),
        ("2026-09-01T11:00:00.123456789Z", datetime(2026, 9, 1, 11, 0, 0, 123_456, tzinfo=UTC)),
    ],
)
def test_a_time_is_kept_in_utc(value: str, moment: datetime) -> None:
    event = parse(SaveRequested, save_body(occurred_at=value))

    assert event.occurred_at == moment
    assert event.occurred_at.tzinfo is UTC


@pytest.mark.parametrize("version", [0, 2, "1", 1.0, True, None])
def test_a_version_that_is_not_the_number_1_is_refused(version: object) -> None:
    (fault,) = faults_of(SaveRequested, save_body(schema_version=version))

    assert fault.path == "schema_version"


@pytest.mark.parametrize("kind", ["", "END_USER", "admin", None, 1])
def test_a_kind_of_caller_outside_the_three_is_refused(kind: object) -> None:
    assert faults_of(SaveRequested, save_body(caller={"kind": kind, "ref": "bob"})) == (
        Fault("caller.kind", "should be 'none', 'end_user' or 'actor'"),
    )
