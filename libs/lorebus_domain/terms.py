"""The terms of a text: what word overlap is counted on, in any script.

The rule that must not break: a new rule gets a new `TERMS_VERSION`, which is stored with every entry's terms,
because the terms of a cue only ever meet terms of the same version (RELEVANCE.md, "Terms").
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from operator import add
from typing import Final

import regex

from lorebus_domain import policy

TERMS_VERSION: Final = 1
HASH_BYTES: Final = 8

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

# Longer pieces hardly ever come again, and would make the memory of words large.
_REMEMBERED_CHARS: Final = 24
_REMEMBERED_PIECES: Final = 8_192
_REMEMBERED_HASHES: Final = 16_384

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
    pieces = text.split() if text.isascii() else _runs(text)
    return tuple(chain.from_iterable(map(_terms_of_piece, pieces)))


def packed(found: Iterable[str]) -> bytes:
    """Terms as numbers to compare: the first 8 bytes of the SHA-256 of each, in their order."""
    return b"".join(map(_hashed, found))


@lru_cache(maxsize=_REMEMBERED_HASHES)
def _hashed(term: str) -> bytes:
    return hashlib.sha256(term.encode(errors="surrogatepass")).digest()[:HASH_BYTES]


def _runs(text: str) -> list[str]:
    decomposed = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text))
    return _RUN_OR_EMOJI.findall(unicodedata.normalize("NFC", _DROPPED.sub("", decomposed)))


def _terms_of_piece(piece: str) -> tuple[str, ...]:
    """The terms of a run or, in ASCII, of all runs between white space: no run goes across that."""
    return _remembered_terms(piece) if len(piece) <= _REMEMBERED_CHARS else _worked_out_terms(piece)


def _worked_out_terms(piece: str) -> tuple[str, ...]:
    if not piece.isascii():
        return _terms_of_other_run(piece)
    return tuple(chain.from_iterable(map(_terms_of_ascii_run, _ASCII_RUN.findall(piece))))


# The same words come again and again, and looking one up is ten times faster than working it out.
_remembered_terms: Final = lru_cache(maxsize=_REMEMBERED_PIECES)(_worked_out_terms)


def _terms_of_ascii_run(run: str) -> tuple[str, ...]:
    run = run.strip("_")
    if not run:
        return ()
    if len(run) > policy.TERM_MAX_RUN_CHARS:
        # Keys, hashes and encoded blobs: one term finds them again, their parts would only be noise.
        return (run[: policy.TERM_MAX_RUN_CHARS].casefold(),)
    texts = [run]
    if not (run.islower() and run.isalpha()):
        # A run of one part is that part, which the dictionary then has once.
        texts += [part for part in _ASCII_PART.findall(run) if len(part) > 1]
    # A dictionary keeps each term of the run once, in order.
    return tuple(dict.fromkeys(term for text in texts if (term := _word(text))))


def _terms_of_other_run(run: str) -> tuple[str, ...]:
    found: list[str] = []
    for stretch in _STRETCH.finditer(run):
        text = stretch.group()
        match stretch.lastgroup:
            case "paired":
                found += _singles_and_pairs(text)
            case "tripled":
                found += _triples(text)
            case _:
                article = _ARABIC_ARTICLE.match(text)
                found.append(_word(text[article.end() :] if article else text))
    return tuple(filter(None, found))


def _singles_and_pairs(stretch: str) -> list[str]:
    """Each Han character, then each pair of neighbours; a lone character, Han or not, gives itself once."""
    if len(stretch) == 1:
        return [stretch]
    return [*_HAN.findall(stretch), *map(add, stretch, stretch[1:])]


def _triples(stretch: str) -> list[str]:
    """Each three neighbours; a shorter stretch gives itself."""
    return [stretch[start : start + 3] for start in range(max(1, len(stretch) - 2))]


def _word(text: str) -> str:
    """The term of a word; '' where it is a stop word."""
    word = text.casefold()
    if word in STOP_WORDS:
        return ""
    if word[-1] == "s" and len(word) > _PLURAL_ABOVE_CHARS and word.isascii() and word.isalpha():
        word = word if word[-2] in "sui" else word[:-1]
    if len(word) > policy.TERM_WORD_CHARS and (word.isalpha() or not _DIGIT_OR_UNDERSCORE.search(word)):
        word = word[: policy.TERM_WORD_CHARS]
    # Only a word with digits can still be long; PostgreSQL refuses to index one of more than 2 046 bytes.
    return word[: policy.TERM_MAX_RUN_CHARS]
