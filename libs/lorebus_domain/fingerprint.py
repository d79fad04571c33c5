"""The identity of a text within its scope.

The rule that must not break: a new rule gets a new `FINGERPRINT_VERSION`, which is stored with every row, or
old entries would quietly stop matching (SPEC.md section 3, step 4).
"""

from hashlib import sha256
from typing import Final

from lorebus_domain.text import clean, normal_form

FINGERPRINT_VERSION: Final = 1


def fingerprint(text: str) -> bytes:
    """The sha256 of the UTF-8 normal form of the cleaned text: 32 bytes, equal exactly when normal forms are.

    Raises:
        ValueError: the normal form is empty; all such texts would share one fingerprint.

    Source: SPEC.md section 3, step 4. Shown to people as lower-case hex (`.hex()`).
    """
    return fingerprint_of_normal_form(normal_form(clean(text)))


def fingerprint_of_normal_form(form: str) -> bytes:
    """The same for a caller that has the normal form of a cleaned text at hand.

    Raises:
        ValueError: `form` is empty.
    """
    if not form:
        raise ValueError("a text whose normal form is empty has no fingerprint")
    return sha256(form.encode()).digest()
