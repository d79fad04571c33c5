"""The identity of a text (SPEC.md section 3, step 4)."""

import pytest
from hypothesis import given

from lorebus_domain.fingerprint import FINGERPRINT_VERSION, fingerprint
from lorebus_domain.text import clean, normal_form
from tests.unit.domain.examples import FingerprintVector, any_text, case_texts, fingerprint_vectors

STORED = [vector for vector in fingerprint_vectors() if vector["outcome"] == "stored"]
SKIPPED = [vector for vector in fingerprint_vectors() if vector["outcome"] == "skipped_empty"]


@pytest.mark.parametrize("vector", STORED, ids=lambda vector: ascii(vector["input"]))
def test_a_stored_vector_has_its_fingerprint(vector: FingerprintVector) -> None:
    assert fingerprint(vector["input"]).hex() == vector["fingerprint"]


@pytest.mark.parametrize("vector", SKIPPED, ids=lambda vector: ascii(vector["input"]))
def test_a_skipped_vector_has_none(vector: FingerprintVector) -> None:
    assert vector["fingerprint"] is None
    with pytest.raises(ValueError, match="normal form is empty"):
        fingerprint(vector["input"])


def test_every_vector_is_stored_or_skipped() -> None:
    assert len(STORED) + len(SKIPPED) == len(fingerprint_vectors())


def test_the_rule_is_version_1() -> None:
    assert FINGERPRINT_VERSION == 1


def test_texts_in_other_scripts_are_told_apart() -> None:
    assert len({fingerprint(text) for text in case_texts("c01")}) == 4


def test_composed_and_decomposed_accents_are_one_text() -> None:
    composed, decomposed = case_texts("c03")

    assert fingerprint(composed) == fingerprint(decomposed)


@given(any_text.filter(lambda text: normal_form(clean(text))), any_text)
def test_fingerprints_are_equal_exactly_when_normal_forms_are(text: str, other: str) -> None:
    for second in (other, f" {text.upper()};", text + "x", text.replace(" ", "\t")):
        form = normal_form(clean(second))
        if form:
            same_form = form == normal_form(clean(text))
            assert (fingerprint(second) == fingerprint(text)) is same_form


@given(any_text.filter(lambda text: normal_form(clean(text))))
def test_a_fingerprint_has_32_bytes_and_does_not_depend_on_cleaning_first(text: str) -> None:
    assert len(fingerprint(text)) == 32
    assert fingerprint(clean(text)) == fingerprint(text)
