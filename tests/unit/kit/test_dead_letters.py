"""Dead letters: the original untouched, and where it came from and why beside it."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lorebus_contracts.topics import MAX_DEAD_LETTER_BYTES, MAX_RECORD_BYTES
from lorebus_contracts.wire import Fault, WireError
from lorebus_kit.bus import Record
from lorebus_kit.dead_letters import RejectedError, UndecodableHeaderError, dead_letter, error_text
from tests.unit.kit.delivery_fakes import RIGHT, record

HEADERS = [("trace", b"\xff\x00"), ("trace", b"again"), ("empty", None)]


def letter(error: Exception, *, headers: list[tuple[str, bytes | None]] | None = None) -> Record:
    return dead_letter(
        record(7, b"\xff\x00value", tp=RIGHT, headers=HEADERS if headers is None else headers),
        topic="memory.prune-requested.lorebus.prune.dlq",
        group="lorebus.prune",
        error=error,
    )


def told(made: Record) -> dict[str, str]:
    return {name: (value or b"").decode() for name, value in made.headers if name.startswith("lorebus-")}


def test_key_value_and_headers_are_the_originals_byte_for_byte_and_in_order() -> None:
    made = letter(RejectedError("unknown_organization"))
    assert made.topic == "memory.prune-requested.lorebus.prune.dlq"
    assert (made.key, made.value) == (b"key", b"\xff\x00value")
    assert list(made.headers)[:3] == HEADERS


def test_it_says_where_it_came_from_who_gave_up_and_why() -> None:
    headers = told(letter(RejectedError("unknown_organization")))
    at = datetime.fromisoformat(headers.pop("lorebus-dead-lettered-at"))
    assert abs((datetime.now(UTC) - at).total_seconds()) < 60
    assert headers == {
        "lorebus-origin-topic": "memory.prune-requested",
        "lorebus-origin-partition": "1",
        "lorebus-origin-offset": "7",
        "lorebus-origin-group": "lorebus.prune",
        "lorebus-error-type": "RejectedError",
        "lorebus-error-text": "unknown_organization",
    }


def test_a_tombstone_stays_one() -> None:
    made = dead_letter(record(7, None), topic="t.dlq", group="g", error=WireError(Fault("", "is empty")))
    assert made.value is None


def test_a_record_without_key_and_value_has_an_empty_value_which_no_client_refuses() -> None:
    made = dead_letter(
        replace(record(7, None), key=None), topic="t.dlq", group="g", error=WireError(Fault("", "is empty"))
    )
    assert (made.key, made.value) == (None, b"")
    assert told(made)["lorebus-no-value"] == "true"


def test_a_name_that_no_client_can_send_is_told_as_hex_and_the_other_headers_stay() -> None:
    made = letter(
        UndecodableHeaderError("a header's name is not UTF-8"), headers=[("n\udcff", b"x"), ("a", b"y")]
    )
    assert next(iter(made.headers)) == ("a", b"y")
    assert told(made)["lorebus-undecodable-header-names"] == "6eff"


def test_names_of_any_length_leave_a_letter_that_fits_into_its_topic() -> None:
    made = letter(
        UndecodableHeaderError("a header's name is not UTF-8"), headers=[("\udcff" * 1_000_000, b"x")]
    )
    more = sum(len(name) + len(value or b"") for name, value in made.headers)
    assert more < MAX_DEAD_LETTER_BYTES - MAX_RECORD_BYTES


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (WireError(Fault("entries.0.text", "is required")), "entries.0.text: is required"),
        (RejectedError("session_mismatch"), "session_mismatch"),
        (UndecodableHeaderError("a header's value is null"), "a header's value is null"),
        (ValueError("likes aisle seats"), "ValueError"),
        (KeyError("likes aisle seats"), "KeyError"),
        (RejectedError("one line\nand another"), "one line"),
        (RejectedError(""), ""),
        (RejectedError("x" * 1000), "x" * 300),
        (RejectedError("token ghp_0123456789abcdefghijABCDEFGHIJ012345"), "token [redacted:github_token]"),
    ],
)
def test_only_our_own_errors_are_quoted_in_one_short_line_without_secrets(
    error: Exception, text: str
) -> None:
    assert error_text(error) == text
