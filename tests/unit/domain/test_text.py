"""Cleaning and the normal form (SPEC.md section 3, steps 1 and 3)."""

import unicodedata

import pytest
from hypothesis import example, given

from lorebus_domain.text import clean, normal_form
from tests.unit.domain.examples import FingerprintVector, any_text, fingerprint_vectors


@pytest.mark.parametrize("vector", fingerprint_vectors(), ids=lambda vector: ascii(vector["input"]))
def test_a_vector_is_cleaned_and_normalized_as_it_says(vector: FingerprintVector) -> None:
    cleaned = clean(vector["input"])

    assert cleaned == vector["cleaned"]
    assert normal_form(cleaned) == vector["normal_form"]


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("disk\0full", "diskfull"),
        ("e\0\u0301", "é"),
        ("ship \ud83d it", "ship \ufffd it"),
        ("\ud83d\ude80", "\ufffd\ufffd"),
        ("🚀", "🚀"),
        ("Cafe\u0301", "Café"),
        (" kept as it is \t\n", " kept as it is \t\n"),
        ("\u0958", "\u0915\u093c"),
    ],
)
def test_a_text_is_cleaned_at_the_edge(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@given(any_text)
def test_a_cleaned_text_can_be_stored_and_encoded(text: str) -> None:
    cleaned = clean(text)

    assert "\0" not in cleaned
    assert cleaned.encode().decode() == cleaned
    assert unicodedata.is_normalized("NFC", cleaned)


@given(any_text)
def test_cleaning_is_idempotent(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@given(any_text)
@example("İstanbul")
@example("ΟΔΟΣ. ΟΔΟΣ")
@example("J\u030c")
@example("-. \u0301a")
def test_normalizing_is_idempotent(text: str) -> None:
    assert normal_form(normal_form(text)) == normal_form(text)


@given(any_text)
def test_a_normal_form_is_lower_case_single_spaced_and_bare_at_both_ends(text: str) -> None:
    form = normal_form(text)

    assert form == form.lower()
    assert form == " ".join(form.split())
    assert form == form.strip(" .;:,-")


def test_a_normal_form_need_not_be_composed() -> None:
    """The capital has no composed form, so lower case brings together what composes to U+01F0."""
    assert normal_form("J\u030c") == "j\u030c"
    assert normal_form("\u01f0") == "\u01f0"


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Retry  THE\tupload;", "retry the upload"),
        ("--flag: value, -- ", "flag: value"),
        (" , - ", ""),
        ("part-size", "part-size"),
        ("wait...", "wait"),
        ("(wait)", "(wait)"),
        ("障害。", "障害。"),
        ("a\u2028b\u0085c\x1cd", "a b c d"),
    ],
)
def test_only_case_white_space_and_the_ends_are_ignored(text: str, form: str) -> None:
    assert normal_form(text) == form
