"""Reducing an error text to what it says about the tool (SPEC.md section 4)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebus_domain.error_template import error_message, error_template
from lorebus_domain.plain_words import PLAIN_WORDS
from tests.unit.domain.examples import any_text


def template(message: str, *names: str, capitalised: frozenset[str] = frozenset()) -> str | None:
    return error_template(message, names=set(names), capitalised=capitalised)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Error: gift card balance is not enough", "gift card balance is not enough"),
        ("Error: flight HAT030 not available on date 2024-05-13", "flight … not available on date …"),
        (
            "Error: payment amount does not add up, total price is 608, but paid 304",
            "payment amount does not add up, total price is …, but paid …",
        ),
        ("User sofia_kim_7287 not found", "User … not found"),
        ("no such customer: Sofia Kim", "no such customer: …"),
        ("no such customer: sofia kim", "no such customer: …"),
        ("sofia.kim@example.com is not allowed (code 17)", "… is not allowed code …"),
        ("AttributeError: Unable to read 'PixelData'", "AttributeError: Unable to read …"),
        ("KeyError: 'sofia'", None),
        ("HTTP 404", None),
        ("", None),
        ("new syntax error(s) introduced!", "new syntax errors introduced"),
        ("the request failed because $42.50 was not paid", "the request failed because … was not paid"),
    ],
)
def test_only_plain_words_and_names_of_exceptions_are_kept(message: str, expected: str | None) -> None:
    assert template(message) == expected


def test_parts_of_the_tools_and_arguments_names_are_kept() -> None:
    assert (
        template("zebra feed for ostrich is invalid", "set_zebra_feed", "barn_id")
        == "zebra feed for … is invalid"
    )


def test_a_first_word_that_records_write_with_a_capital_is_not_kept() -> None:
    assert template("Price was not found", capitalised=frozenset({"price"})) == "… was not found"
    assert template("price was not found", capitalised=frozenset({"price"})) == "price was not found"


def test_a_template_has_at_most_120_code_points() -> None:
    found = template("the value is not valid and " * 20)

    assert found is not None
    assert len(found) <= 120
    assert found.endswith(("valid", "and", "the", "value", "is", "not"))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Error: not enough seats on flight HAT139", "Error: not enough seats on flight HAT139"),
        ('{"error": {"message": "The card was declined. Try again."}}', "The card was declined"),
        ('{"detail": "Not found", "status": 404}', "Not found"),
        (
            'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: bad input\n',
            "ValueError: bad input",
        ),
        ("Running...\nls: cannot access 'x': No such file\n", "ls: cannot access 'x': No such file"),
        (
            "Your edit has introduced new syntax error(s). Please retry.",
            "Your edit has introduced new syntax error(s)",
        ),
        ("[File: a.py (10 lines total)]\n1: except ValueError as error:", None),
        ("Text replaced. Please review the changes.", None),
        ("Warning: setupterm: could not find terminfo database\nDone", None),
        ("", None),
        ("[]", None),
        ('{"error": null}', None),
        ("{" * 50_000, None),
    ],
)
def test_the_sentence_that_says_what_went_wrong_is_found(output: str, expected: str | None) -> None:
    assert error_message(output) == expected


@given(any_text, st.sets(any_text, max_size=3))
def test_every_word_of_a_template_is_a_known_one(message: str, names: set[str]) -> None:
    found = error_template(message, names=names, capitalised=frozenset()) or ""

    known = PLAIN_WORDS | {part for name in names for part in name.lower().split()}
    for token in found.split():
        word = token.rstrip(",;:").lower()
        assert word == "…" or word in known or any(word in name for name in names) or word.endswith("error")


def test_no_plain_word_is_a_common_first_name() -> None:
    names = """
        alice amy ann anna april art ben bob carl chase chris daisy dan dave dawn drew ed emma eve faith frank gene
        grace grant guy hope ivan ivy jack james jan jim joe john june kim lee leo lily liz lucas luke maria mark
        mary max may mia mike miles nick noah olivia omar pat paul penny peter ray rich rob rose ruby sam sofia"
        " sophia sue ted tim tom victor
    """

    assert PLAIN_WORDS.isdisjoint(names.split())
