"""Taking recalled memory that was handed out in a frame (`recall_format.fenced`) out of a text.

The rule that must not break: no recalled text stays behind; where the beginning or the end of a frame is not there, too
much is taken rather than too little (SPEC.md section 4, "strip any recalled-memory block").
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from lorebus_domain.quoted_literal import ESCAPED_NEWLINE, closing_quote

_LINE: Final = re.compile(r"(?i)\[recalled memory (?P<marker>[0-9a-f]{32}): (?P<what>[^\]\n\\]{0,80})\]?")
_BEGINNING: Final = re.compile(r"(?i)[0-9]+ entries")


def without_frames(text: str) -> str:
    r"""The text without frames; a text without one comes back as it is. Linear in the text's length.

    A frame goes from its first line to its `end`, however the text around it is quoted or escaped. One whose first line
    was cut off goes from the beginning of the text, or from the frame before it; one whose end was cut off goes to the
    end of the JSON string or other quoted literal that it stands in, or else of the text.
    """
    line = _LINE.search(text)
    if line is None:
        return text
    ends = _ends(text)
    kept: list[str] = []
    done = 0
    while line is not None:
        kept.append(text[done : line.start()] if _BEGINNING.match(line["what"]) else "")
        done = _end(text, line, ends[line["marker"].lower()])
        line = _LINE.search(text, done)
    return "".join((*kept, text[done:]))


def _ends(text: str) -> Mapping[str, list[int]]:
    """Where the frame of each marker ends, found once for the whole text."""
    found: dict[str, list[int]] = defaultdict(list)
    for line in _LINE.finditer(text):
        if line["what"].lower() == "end":
            found[line["marker"].lower()].append(line.end())
    return found


def _end(text: str, line: re.Match[str], ends: Sequence[int]) -> int:
    following = bisect_left(ends, line.end())
    if following < len(ends):
        return ends[following]
    escape = ESCAPED_NEWLINE.match(text, line.end())
    return len(text) if escape is None else closing_quote(text, line, len(escape["backslashes"]))
