"""Cleaning a text at the edge, and the normal form that is its identity within a scope.

The rule that must not break: what `clean` gives back can be stored by PostgreSQL and encoded as UTF-8, and
two spellings of the same characters come out the same (SPEC.md section 3, steps 1 and 3).
"""

import re
import unicodedata
from typing import Final

from lorebus_domain import policy

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_REPLACEMENT: Final = "\ufffd"


def clean(text: str) -> str:
    """The text without U+0000, with each lone surrogate as U+FFFD, in NFC.

    Cleaning twice changes nothing more. NFC makes a few characters longer (at most three times).
    Source: SPEC.md section 3, step 1.
    """
    if "\0" in text:
        text = text.replace("\0", "")
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _LONE_SURROGATE.sub(_REPLACEMENT, text))


def normal_form(text: str) -> str:
    """What makes two cleaned texts the same: lower case, single spaces, no ` .;:,-` at either end; may be ''.

    Applied twice it changes nothing more, for any text: `str.lower` leaves what it has made as it is. The
    result need not be in NFC, since lower case may bring together what composes ("J̌" gives j and U+030C, not
    U+01F0), so it is an identity and never a text to clean, to store or to show.
    Source: SPEC.md section 3, step 3.
    """
    return " ".join(text.lower().split()).strip(policy.NORMAL_FORM_STRIP)
