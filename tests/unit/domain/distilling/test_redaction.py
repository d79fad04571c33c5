"""Taking secrets out of a text (SPEC.md section 4)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebus_domain.redaction import redact
from tests.unit.domain.distilling.secrets_to_plant import PLANTED
from tests.unit.domain.distilling.sessions import real_sessions
from tests.unit.domain.examples import any_text

SECRETS = [text for text, _ in PLANTED.values()]
pieces = st.one_of(
    any_text,
    st.sampled_from(SECRETS),
    st.sampled_from(SECRETS).flatmap(lambda text: st.integers(0, len(text)).map(lambda cut: text[:cut])),
    st.sampled_from(
        ["password=", "token: ", '"', "\\n", "\n", "-----END PRIVATE KEY-----", "[redacted:token]", "://a:"]
    ),
)


@pytest.mark.parametrize("kind", PLANTED)
def test_a_secret_is_replaced_by_the_mark_of_its_kind_and_counted(kind: str) -> None:
    text, hidden = PLANTED[kind]

    redacted = redact(f"before {text} after")

    assert hidden not in redacted.text
    assert f"[redacted:{kind}]" in redacted.text
    assert redacted.counts == {kind: 1}
    assert redacted.text.startswith("before ")


@pytest.mark.parametrize("kind", PLANTED)
def test_a_secret_inside_a_json_string_is_found(kind: str) -> None:
    text, hidden = PLANTED[kind]

    redacted = redact(json.dumps({"log": f"first line\n{text}\nlast line"}))

    assert hidden not in redacted.text
    assert json.dumps(hidden)[1:-1] not in redacted.text


@pytest.mark.parametrize("kind", PLANTED)
def test_a_secret_inside_json_inside_a_json_string_is_found(kind: str) -> None:
    text, hidden = PLANTED[kind]

    redacted = redact(json.dumps(json.dumps({"log": f"first line\n{text}\nlast line"})))

    assert hidden not in redacted.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("password=a,b)c&d rest", "password=[redacted:password] rest"),
        ('{"password": "a \\"quoted\\" one", "user": "ann"}', '{"password": "[redacted:password]", "user": "ann"}'),
        ("{'client_secret': 'abcd1234'}", "{'client_secret': '[redacted:api_key]'}"),
        (r'{\"password\": \"hunter2\", \"a\": \"b\"}', r'{\"password\": \"[redacted:password]\", \"a\": \"b\"}'),
        ('password="cut off in the mid', 'password="[redacted:password]'),
        ("the password is hunter2", "the password is [redacted:password]"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted:authorization]"),
        ("curl -u x https://ann:p@ss@host/path", "curl -u x https://ann:[redacted:url_credentials]@host/path"),
        ("AccountKey=abcd1234abcd==;Endpoint=x", "AccountKey=[redacted:api_key]"),
        ("card 2024-05-27 4111 1111 1111 1111", "card 2024-05-27 [redacted:card_number]"),
        ("ids 1234 4111 1111 1111 1111", "ids 1234 [redacted:card_number]"),
        ("DE89 3704 0044 0532 0130 00 IS MINE", "[redacted:iban] IS MINE"),
    ],
)  # fmt: skip
def test_what_goes_is_the_whole_value_and_not_its_name(text: str, expected: str) -> None:
    assert redact(text).text == expected


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=4096, total tokens: 512",
        "SyntaxError: unexpected token: foo",
        "password: null",
        "Error: password: required",
        "if password == expected:",
        "a task-management-and-scheduling-service",
        "4111 1111 1111 1112 is no card",
        "GB82 WEST 1234 5698 7654 33 is no account",
        "order 2024-05-27, flight HAT030, credit_card_9879898",
        "see https://example.com:8080/path?query=1",
        "basic knowledge of authentication",
        "the key idea and the secret garden",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    redacted = redact(text)

    assert redacted.text == text
    assert redacted.counts == {}


@pytest.mark.parametrize(
    "block",
    [
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSj",
        "MIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSj\n-----END PRIVATE KEY-----",
        "-----BEGIN EC PRIVATE KEY-----\\nMIIEvQIBADANBgkqhkiG9w0B\\nAQEFAASCBKcwggSj\\n",
        "-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: AES-128-CBC,AB12\n\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSj",
    ],
)
def test_a_private_key_that_lost_an_end_goes_whole(block: str) -> None:
    redacted = redact(f"(a) {block}.")

    assert redacted.text in {"(a) [redacted:private_key].", "(a)[redacted:private_key]."}
    assert redacted.counts == {"private_key": 1}


def test_real_traces_hold_no_secret_and_stay_as_they_are() -> None:
    for session in real_sessions():
        for text in (session.task, *(call.output for call in session.trace)):
            assert redact(text).text == text


@given(st.lists(pieces, max_size=8).map("".join))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact(text)
    again = redact(once.text)

    assert again.text == once.text
    assert again.counts == {}


@pytest.mark.parametrize(
    "text",
    [
        "eyJ",
        "password=",
        "-----BEGIN PRIVATE KEY-----",
        "abcd-----END PRIVATE KEY-----",
        "4111 ",
        "GB82",
        "://a:",
        "\\",
        '"',
    ],
)
def test_a_text_of_60_000_hostile_characters_is_read_to_its_end(text: str) -> None:
    redacted = redact(text * (60_000 // len(text)) + " AKIAIOSFODNN7EXAMPLE")

    assert "IOSFODNN7EXAMPLE" not in redacted.text
