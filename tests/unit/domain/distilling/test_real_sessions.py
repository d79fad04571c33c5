"""What the rules learn from the 43 real sessions, and above all what they do not (SPEC.md section 4)."""

import re
from collections import Counter
from hashlib import sha256
from typing import Final

from lorebus_domain.trace_rules import distil_by_rules
from tests.unit.domain.distilling.sessions import SESSIONS, real_sessions, record_values

FOUND_ELSEWHERE: Final = (
    "When `search_direct_flight` comes back empty, try `search_onestop_flight` with the same `date`, `destination` and"
    " `origin`: it can find something."
)
ONE_BY_ONE: Final = (
    "Call `get_reservation_details` for each `reservation_id` before `cancel_reservation`: a session that did so ended"
    " well."
)
OTHER_CARD: Final = (
    'When `update_reservation_flights` fails with "gift card balance is not enough", call it again with another value'
    " for `payment_id`: that worked."
)
NO_CERTIFICATE: Final = (
    'When `update_reservation_flights` fails with "certificate cannot be used to update reservation", call it again'
    " with another value for `payment_id`: that worked."
)


def test_the_sessions_are_the_ones_the_tests_were_written_for() -> None:
    assert len(real_sessions()) == 43
    assert sha256(SESSIONS.read_bytes()).hexdigest() == (
        "7fcaddb4aa78ed81ace1ecdb264a0407897063d91f4d20cbc831df42cc3cb179"
    )


def test_no_lesson_holds_a_value_of_any_record_of_any_session() -> None:
    records = frozenset().union(*map(record_values, real_sessions()))
    assert {
        "Sofia",
        "Houston",
        "HAT030",
        "credit_card_9879898",
        "2024-05-27",
        "77243",
        "omar_rossi_1241",
    } <= records
    assert {
        "New York",
        "Minneapolis",
        "825 Laurel Lane",
        "sofia.kim1937@example.com",
        "gold",
        "economy",
    } <= records
    # Values that are words of the language as well: of a state, a payment, an answer, and a command.
    somebodys = records - {"available", "certificate", "no", "submit"}

    for session in real_sessions():
        for lesson in distil_by_rules(session.prepared()):
            unnamed = re.sub(r"`[^`]+`", "", lesson.text)
            tokens = {token.strip(".,:;\"'()") for token in unnamed.split()} - {""}
            assert not tokens & somebodys
            assert not [value for value in somebodys if len(value) > 4 and value in lesson.text]
            assert not re.search(r"[\d@]", lesson.text)


def test_every_name_in_a_lesson_is_a_tool_or_an_argument_of_its_session() -> None:
    for session in real_sessions():
        names = {call.tool for call in session.trace}
        names |= {name for call in session.trace if isinstance(call.input, dict) for name in call.input}
        for lesson in distil_by_rules(session.prepared()):
            assert set(re.findall(r"`([^`]+)`", lesson.text)) <= names


def test_many_sessions_teach_something_several_nothing_and_none_more_than_five_lessons() -> None:
    counts = Counter(len(distil_by_rules(session.prepared())) for session in real_sessions())

    assert max(counts) <= 5
    assert counts[0] >= 5
    assert 43 - counts[0] >= 10


def test_lessons_come_again_from_other_sessions_in_the_very_same_words() -> None:
    seen = Counter(
        lesson.text for session in real_sessions() for lesson in distil_by_rules(session.prepared())
    )
    again = {text: count for text, count in seen.items() if count > 1}

    assert len(again) >= 3
    assert again[FOUND_ELSEWHERE] == 2
    assert again[ONE_BY_ONE] == 2


def test_an_airline_session_teaches_how_its_errors_were_put_right() -> None:
    found = [lesson.text for lesson in distil_by_rules(real_sessions()[1].prepared())]

    assert found == [OTHER_CARD, NO_CERTIFICATE, FOUND_ELSEWHERE]


def test_a_coding_session_teaches_what_put_its_script_right() -> None:
    found = [lesson.text for lesson in distil_by_rules(real_sessions()[41].prepared())]

    assert found[0] == (
        'When `python` fails with "AttributeError: Unable to convert the pixel data as the following required elements'
        ' are missing from the dataset: …", the same call can work after `find_file`, then `open`, then `edit`.'
    )
