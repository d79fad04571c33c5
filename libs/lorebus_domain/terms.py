"""The terms of a text: what word overlap is counted on, in any script.

The rule that must not break: a new rule gets a new `TERMS_VERSION`, which is stored with every entry's terms,
because the terms of a cue only ever meet terms of the same version (RELEVANCE.md, "Terms").
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

import regex

from lorebus_domain import policy

TERMS_VERSION: Final = 1

STOP_WORDS: Final = frozenset(
    """
    a an and are as at be been but by can could did do does for from had has have he her hers him his how i if
    in into is it its me my no not of on or our s she should so t than that the their them then there these
    they this those to up us was we were what when where which who whom whose why will with would you your
    """.split()  # noqa: SIM905  Seventy-six words read better as lines than as a list.
)

# Latin, Greek and Cyrillic accents; Hebrew points; Arabic vowel signs, hamza marks and tatweel.
_DROPPED: Final = regex.compile(
    r"[\u0300-\u036f\u064b-\u065f\u0670\u0640]|[\p{Script=Hebrew}&&\p{M}]", regex.V1
)

# A run starts with a character that stands by itself: a mark or a joiner alone (what is left of an emoji's
# variation selector, say) is no run. ASCII has neither, so plain `re` finds its runs in half the time.
_ASCII_RUN: Final = re.compile(r"[A-Za-z0-9_]+")
# A skin tone is a change to the emoji before it and no emoji of its own.
_RUN_OR_EMOJI: Final = regex.compile(
    r"[\w--[\p{M}\p{Join_Control}]][\w\p{M}]*|[\p{Emoji}--[\p{ASCII}\p{Emoji_Modifier}]]", regex.V1
)
_ASCII_PART: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")

# U+30FC, which lengthens a vowel, is shared by both kana and so has the script Common.
_PAIRED: Final = r"\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\u30fc"
_TRIPLED: Final = r"\p{Script=Thai}\p{Script=Lao}\p{Script=Myanmar}\p{Script=Khmer}"
_STRETCH: Final = regex.compile(
    rf"(?P<paired>[{_PAIRED}]+)|(?P<tripled>[{_TRIPLED}]+)"
    rf"|(?P<word>[^{_PAIRED}{_TRIPLED}\p{{M}}\p{{Join_Control}}][^{_PAIRED}{_TRIPLED}]*)"
)
_HAN: Final = regex.compile(r"\p{Script=Han}")

# A final `s` is a plural only in an ASCII word longer than this.
_PLURAL_ABOVE_CHARS: Final = 3
# The article al-, also after wa-, fa-, bi- or ka-, and lil-.
_ARABIC_ARTICLE: Final = regex.compile(
    r"(?:[\u0648\u0641\u0628\u0643]?\u0627\u0644|\u0644\u0644)(?=\p{L}{3})"
)
_DIGIT_OR_UNDERSCORE: Final = regex.compile(r"[\d_]")


def terms(text: str) -> tuple[str, ...]:
    """The terms of a text in the order of the text, repeats kept; () when it has none.

    No term is empty, holds white space or is longer than 128 characters.
    Source: RELEVANCE.md, "Terms".
    """
    found: list[str] = []
    for run in _runs(text):
        if run.isascii():
            found.extend(_terms_of_ascii_run(run))
        else:
            found.extend(_terms_of_other_run(run))
    return tuple(found)


def _runs(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_RUN.findall(text)
    decomposed = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text))
    return _RUN_OR_EMOJI.findall(unicodedata.normalize("NFC", _DROPPED.sub("", decomposed)))


def _terms_of_ascii_run(run: str) -> Iterator[str]:
    run = run.strip("_")
    if len(run) > policy.TERM_MAX_RUN_CHARS:
        # Keys, hashes and encoded blobs: one term finds them again, their parts would only be noise.
        yield run[: policy.TERM_MAX_RUN_CHARS].casefold()
    elif run.islower() and run.isalpha():
        yield from _word(run)
    else:
        # A dictionary keeps each term of the run once, in order.
        yield from dict.fromkeys(term for text in _run_and_its_parts(run) for term in _word(text))


def _run_and_its_parts(run: str) -> Iterator[str]:
    if run:
        yield run
    parts = _ASCII_PART.findall(run)
    if len(parts) > 1:
        yield from (part for part in parts if len(part) > 1)


def _terms_of_other_run(run: str) -> Iterator[str]:
    for stretch in _STRETCH.finditer(run):
        text = stretch.group()
        match stretch.lastgroup:
            case "paired":
                yield from _singles_and_pairs(text)
            case "tripled":
                yield from _neighbours(text, 3)
            case _:
                article = _ARABIC_ARTICLE.match(text)
                yield from _word(text[article.end() :] if article else text)


def _singles_and_pairs(stretch: str) -> Iterator[str]:
    """A lone character gives itself once, Han or not."""
    if len(stretch) == 1:
        yield stretch
        return
    yield from _HAN.findall(stretch)
    yield from _neighbours(stretch, 2)


def _neighbours(stretch: str, size: int) -> Iterator[str]:
    """Each run of `size` neighbours; a stretch that is shorter gives itself."""
    for start in range(max(1, len(stretch) - size + 1)):
        yield stretch[start : start + size]


def _word(text: str) -> Iterator[str]:
    """The one term of a word, or none where it is a stop word."""
    word = text.casefold()
    if word in STOP_WORDS:
        return
    if word[-1] == "s" and len(word) > _PLURAL_ABOVE_CHARS and word.isascii() and word.isalpha():
        word = word if word[-2] in "sui" else word[:-1]
    if len(word) > policy.TERM_WORD_CHARS and (word.isalpha() or not _DIGIT_OR_UNDERSCORE.search(word)):
        word = word[: policy.TERM_WORD_CHARS]
    # Only a word with digits can still be long; PostgreSQL refuses to index one of more than 2 046 bytes.
    yield word[: policy.TERM_MAX_RUN_CHARS]
