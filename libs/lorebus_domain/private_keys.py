"""Finding private key blocks (PEM and PGP), whole, cut at either end, or escaped inside a JSON string.

The rule that must not break: no base64 line of a key survives because its first or its last line is missing;
where a block is cut, too much is taken rather than too little.
"""

import re
from collections.abc import Iterator
from typing import Final

_EDGE: Final = re.compile(r"-----(?P<edge>BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
# Longer than the PEM of a 16 384 bit key, escapes and indents counted.
_MAX_BLOCK_CHARS: Final = 20_000
_HEADERS: Final = r"(?:(?:\\+[nr]|\s)+[A-Za-z-]{3,24}: [^\r\n\\]{1,200}){0,6}"
_BODY: Final = re.compile(_HEADERS + r"(?:\\+[nrt]|[\s\"',>|]|[A-Za-z0-9+/=])*")
# The same lines met from behind; the words of a sentence just before them go as well.
_BODY_REVERSED: Final = re.compile(r"[A-Za-z0-9+/=\s\"',>|\\]*")


def private_key_spans(text: str) -> Iterator[tuple[int, int]]:
    """The start and end of each private key block of a text, in order, never overlapping.

    A block without its last line runs as far as its lines do; one without its first line likewise, backwards.
    """
    edges = list(_EDGE.finditer(text))
    done = 0
    for index, edge in enumerate(edges):
        if edge.start() < done:
            continue
        start, end = _span(text, edges, index, done)
        yield start, end
        done = end


def _span(text: str, edges: list[re.Match[str]], index: int, floor: int) -> tuple[int, int]:
    edge = edges[index]
    if edge["edge"] == "END":
        before = text[max(floor, edge.start() - _MAX_BLOCK_CHARS) : edge.start()]
        body = _BODY_REVERSED.match(before[::-1])
        return edge.start() - (body.end() if body else 0), edge.end()
    following = edges[index + 1] if index + 1 < len(edges) else None
    if (
        following is not None
        and following["edge"] == "END"
        and following.end() - edge.start() <= _MAX_BLOCK_CHARS
    ):
        return edge.start(), following.end()
    body = _BODY.match(text, edge.end())
    return edge.start(), body.end() if body else edge.end()
