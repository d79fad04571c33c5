"""Taking secrets out of a text before a model, or anybody else, sees it.

The rule that must not break: what is taken out is replaced by `[redacted:<kind>]`, is never kept, logged or
reported, and redacting twice changes nothing more (SPEC.md section 4, "redact secrets").
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lorebus_domain.private_keys import private_key_spans
from lorebus_domain.secret_patterns import SECRET_PATTERNS, SecretPattern

PRIVATE_KEY: Final = "private_key"
# One secret taken away can lay another one open; each round takes at least one, and real texts need two.
_MAX_ROUNDS: Final = 8


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and how many of each kind it had."""

    text: str
    counts: Mapping[str, int]


def mark(kind: str) -> str:
    """What stands where a secret of this kind stood; `kind` is lower-case letters and `_`."""
    return f"[redacted:{kind}]"


def redact(text: str) -> Redacted:
    """The text with each secret replaced by its mark, and the counts per kind (kinds met only).

    Kinds: private keys, tokens and keys of known vendors, logins in headers, cookies, URLs and connection
    strings, values assigned to names such as `password`, card numbers (Luhn), IBANs (checksum), US social
    security numbers. Linear in the text's length.
    Source: SPEC.md section 4.
    """
    counts: Counter[str] = Counter()
    for _ in range(_MAX_ROUNDS):
        found = counts.total()
        text = _replace(text, PRIVATE_KEY, private_key_spans(text), counts)
        folded = text.lower()
        for shape in SECRET_PATTERNS:
            if shape.hint in folded:
                text = _replace(text, shape.kind, _spans(text, shape), counts)
        if counts.total() == found:
            break
    return Redacted(text=text, counts=dict(counts))


def _spans(text: str, shape: SecretPattern) -> Iterator[tuple[int, int]]:
    """Where secrets of one shape stand; after a candidate that is none, the next may begin inside it."""
    position = 0
    while match := shape.pattern.search(text, position):
        start, end = match.span("secret")
        length = end - start if shape.length is None else shape.length(text[start:end])
        if length is None:
            position = match.start() + 1
        else:
            yield start, start + length
            position = max(start + length, match.start() + 1)


def _replace(text: str, kind: str, spans: Iterator[tuple[int, int]], counts: Counter[str]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end in spans:
        pieces += (text[done:start], mark(kind))
        done = end
        counts[kind] += 1
    if not pieces:
        return text
    return "".join((*pieces, text[done:]))
