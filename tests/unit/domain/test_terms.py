"""The terms of a text (RELEVANCE.md, "Terms")."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorebus_domain.terms import STOP_WORDS, TERMS_VERSION, terms
from lorebus_domain.text import clean
from tests.unit.domain.examples import TermsVector, any_text, relevance_vectors


@pytest.mark.parametrize("vector", relevance_vectors()["terms"], ids=lambda vector: ascii(vector["text"]))
def test_a_vector_has_exactly_its_terms(vector: TermsVector) -> None:
    assert list(terms(vector["text"])) == vector["terms"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # ASCII runs and their parts.
        ("__init__", ["init"]),
        ("___", []),
        ("parseHTTPBody2", ["parsehttpbody2", "parse", "http", "body"]),
        ("test_test", ["test_test", "test"]),
        ("is_ok", ["is_ok", "ok"]),
        ("Deploy", ["deplo"]),
        ("utf8 u32", ["utf8", "utf", "u32", "32"]),
        ("E0308-E0308", ["e0308", "0308", "e0308", "0308"]),
        # Plurals and the first five characters.
        ("keys key", ["key", "key"]),
        ("gas class status axis", ["gas", "class", "statu", "axis"]),
        ("routers router", ["route", "route"]),
        ("12345678", ["12345678"]),
        # Stop words, in any case and as parts.
        ("What IS it", []),
        ("isOK", ["isok", "ok"]),
        # Other scripts.
        ("库", ["库"]),
        ("か", ["か"]),
        ("かき", ["かき"]),
        ("請求書を", ["請", "求", "書", "請求", "求書", "書を"]),
        ("サーバー", ["サー", "ーバ", "バー"]),
        ("ｻｰﾊﾞ", ["サー", "ーバ"]),
        ("환불", ["환불"]),
        ("是是", ["是", "是", "是是"]),
        ("使用Python编写", ["使", "用", "使用", "pytho", "编", "写", "编写"]),
        ("上限是50", ["上", "限", "是", "上限", "限是", "50"]),
        ("ส่งของ", ["ส่ง", "่งข", "งขอ", "ของ"]),
        ("กา", ["กา"]),
        ("журналы Ёлка", ["журна", "елка"]),
        ("Größe", ["gross"]),
        ("हिन्दी", ["हिन्द"]),
        ("שָׁלוֹם", ["שלום"]),
        # Arabic articles, hamza and tatweel.
        ("والكتاب بالكتاب للكتاب", ["كتاب", "كتاب", "كتاب"]),
        ("الف ألم", ["الف", "الم"]),
        ("كـتـاب", ["كتاب"]),
        ("أمر", ["امر"]),
        # Emoji, single and without what only changes them.
        ("🚀🔥", ["🚀", "🔥"]),
        ("❤️ 👍🏽", ["❤", "👍"]),
        ("#5 *", ["5"]),
        # Full width and other compatibility forms.
        ("ＡＢＣ１２３", ["abc123", "abc", "123"]),
        ("ﬁle ②", ["file", "2"]),
    ],
)
def test_a_text_has_exactly_these_terms(text: str, expected: list[str]) -> None:
    assert list(terms(text)) == expected


def test_an_ascii_run_over_128_characters_gives_its_first_128_only() -> None:
    assert terms("A" * 129 + "_tail") == ("a" * 128,)
    assert terms("A" * 128) == ("aaaaa",)


def test_a_long_word_with_digits_in_another_script_is_cut_to_128() -> None:
    """PostgreSQL refuses to index a word of more than 2 046 bytes."""
    assert terms("ж" * 3000 + "1") == ("ж" * 128,)


def test_there_are_76_stop_words_and_none_is_a_term() -> None:
    assert len(STOP_WORDS) == 76
    assert terms(" ".join(sorted(STOP_WORDS))) == ()


def test_the_rule_is_version_1() -> None:
    assert TERMS_VERSION == 1


@given(any_text)
def test_terms_can_be_stored_joined_by_spaces(text: str) -> None:
    found = terms(clean(text))

    assert tuple(" ".join(found).split()) == found
    assert all(0 < len(term) <= 128 for term in found)


@given(any_text)
def test_composed_and_decomposed_texts_have_the_same_terms(text: str) -> None:
    assert terms(clean(text)) == terms(text.replace("\0", ""))


@given(st.lists(any_text, max_size=4))
def test_the_terms_of_lines_are_the_terms_of_each_line(lines: list[str]) -> None:
    cleaned = [clean(line) for line in lines]

    assert terms("\n".join(cleaned)) == tuple(term for line in cleaned for term in terms(line))
