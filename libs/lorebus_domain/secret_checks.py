"""Checks that tell a card number, a bank account or a basic login from any other run of characters.

The rule that must not break: each check looks at one bounded candidate and never keeps or reports it.
"""

import base64
import binascii
import re
from typing import Final

_NOT_DIGITS: Final = re.compile(r"\D")
_SEPARATORS: Final = re.compile(r"[ -]")
_CARD_DIGITS: Final = range(13, 20)
_DECIMAL: Final = 10
_IBAN_MODULUS: Final = 97
_IBAN_REMAINDER: Final = 1

# The length of an account number per country (ISO 13616 registry), so that the words after one are not taken.
_IBAN_CHARS: Final = {
    country: length
    for length, countries in {
        15: "NO",
        16: "BE",
        18: "DK FO FI GL NL SD",
        19: "MK SI",
        20: "AT BA EE KZ LT LU XK MN",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA",
        23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST",
        26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HU LB NI PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU YE",
        31: "MT SC",
        32: "LC",
        33: "RU",
    }.items()
    for country in countries.split()
}


def is_card_number(candidate: str) -> bool:
    """Whether the digits of a candidate are a payment card's: 13 to 19 of them that pass the Luhn check."""
    digits = _NOT_DIGITS.sub("", candidate)
    if len(digits) not in _CARD_DIGITS or digits[0] not in "23456":
        return False
    total = 0
    for position, digit in enumerate(reversed(digits)):
        doubled = int(digit) * (1 + position % 2)
        total += doubled if doubled < _DECIMAL else doubled - 9
    return total % _DECIMAL == 0


def iban_length(candidate: str) -> int | None:
    """How many characters of a candidate, separators counted, are an IBAN with a right checksum, from its start.

    None when there is none. The candidate may run on into the words behind the number.
    """
    expected = _IBAN_CHARS.get(candidate[:2].upper())
    if expected is None:
        return None
    compact = _SEPARATORS.sub("", candidate)[:expected].upper()
    if len(compact) < expected or not compact.isalnum() or not compact.isascii():
        return None
    rearranged = compact[4:] + compact[:4]
    if int("".join(str(int(char, 36)) for char in rearranged)) % _IBAN_MODULUS != _IBAN_REMAINDER:
        return None
    return _end_of(candidate, expected)


def is_basic_login(candidate: str) -> bool:
    """Whether a candidate is base64 of `user:password` in printable characters (RFC 7617)."""
    padded = candidate.rstrip("=") + "=" * (-len(candidate.rstrip("=")) % 4)
    try:
        login = base64.b64decode(padded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    return ":" in login and login.isprintable()


def _end_of(candidate: str, letters: int) -> int:
    """The position just after the given number of characters that are no separators."""
    seen = 0
    for position, char in enumerate(candidate):
        seen += char not in " -"
        if seen == letters:
            return position + 1
    return len(candidate)
