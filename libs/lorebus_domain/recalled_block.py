"""Taking a recalled-memory block out of a text, so that memories are not learnt again from themselves.

The rule that must not break: no recalled text stays behind; where the end of a block is in doubt, too much is
taken rather than too little (SPEC.md section 4, "strip any recalled-memory block").

Only `pack` writes a heading, and only a load that asked for it has a frame. What the ordered strategies hand out
plainly, and a JSON list, cannot be told from other text; `recalled_texts` takes their texts out one by one.
"""

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Final

from lorebus_domain import policy
from lorebus_domain.quoted_literal import ESCAPED_NEWLINE, closing_quote
from lorebus_domain.recalled_frame import without_frames

_NAME: Final = r"Recalled memory"
_REMARK: Final = r"\(?ranked for this task\)"
# The heading whole, without its remark, or (its beginning cut off) the remark alone; what stands before it on
# its line may be a quote mark, a key of JSON or anything else, and stays.
_HEADING: Final = re.compile(rf"(?i)#{{1,6}}[ \t]*{_NAME}\b(?:[ \t]*{_REMARK})?|{_REMARK}")
_QUOTE_PREFIX: Final = re.compile(r"[ \t]*>[ \t>]*$")
_QUOTE_LINE: Final = re.compile(r"[ \t]*>")
# A line of three dashes, after a newline as such or as an escape. Only ever makes a block longer.
_SEPARATOR: Final = re.compile(r"(?:^|\n|\\[rn])[ \t>]*---[ \t]*(?=$|[\r\n\\\"'])")
# A section of the same or a higher level, after an empty line.
_SECTION: Final = re.compile(r"\n[ \t>]*\r?\n[ \t>]*(?P<hashes>#{1,2}[ \t]+\S)")
_ESCAPED_SECTION: Final = re.compile(r"\\n[ \t>]*(?:\\+r)?\\+n[ \t>]*(?P<hashes>#{1,2}[ \t]+\S)")
# How far from its heading a block can still hold a separator: its budget, and as much again for escapes and
# quote marks.
_REACH_CHARS: Final = 2 * policy.PACK_BUDGET_CHARS


@dataclass(frozen=True, slots=True)
class _Landmarks:
    """Where separators end and sections begin, found once for the whole text."""

    separators: tuple[int, ...]
    sections: tuple[int, ...]
    escaped_sections: tuple[int, ...]


def strip_recalled(text: str) -> str:
    """The text without any recalled-memory block; a text without one comes back as it is.

    A block begins at its heading (`## Recalled memory (ranked for this task)`, also without its remark or with
    its beginning cut off). Its end is the first of

    - inside a JSON string or another quoted literal: the closing quote of that literal;
    - in lines quoted with `>`: the first line that is not quoted;
    - a heading of level 1 or 2 after an empty line, provided that no line `---` follows it within reach of the
      block's heading: recalled texts may hold headings themselves, and `---` says that one more text follows;
    - the end of the text.

    Empty lines do not end a block, since a recalled text may hold them. So what follows a block without a
    heading of its own is taken with it: too much rather than too little. Frames go before (`without_frames`), as a
    text in one may hold a heading. Linear in the text's length.
    Source: SPEC.md section 4; the block itself: section 5.
    """
    text = without_frames(text)
    heading = _HEADING.search(text)
    if heading is None:
        return text
    landmarks = _landmarks(text)
    kept: list[str] = []
    done = 0
    while heading is not None:
        kept.append(text[done : heading.start()])
        done = _block_end(text, heading, landmarks)
        heading = _HEADING.search(text, done)
    return "".join((*kept, text[done:]))


def _landmarks(text: str) -> _Landmarks:
    return _Landmarks(
        separators=tuple(match.end() for match in _SEPARATOR.finditer(text)),
        sections=tuple(match.start("hashes") for match in _SECTION.finditer(text)),
        escaped_sections=tuple(match.start("hashes") for match in _ESCAPED_SECTION.finditer(text)),
    )


def _block_end(text: str, heading: re.Match[str], landmarks: _Landmarks) -> int:
    escape = ESCAPED_NEWLINE.match(text, heading.end())
    if escape is not None:
        limit = closing_quote(text, heading, len(escape["backslashes"]))
        return _section_end(heading.end(), limit, landmarks.separators, landmarks.escaped_sections)
    line_start = text.rfind("\n", 0, heading.start()) + 1
    quoted = _QUOTE_PREFIX.match(text, line_start, heading.start()) is not None
    limit = _end_of_quote(text, heading.end()) if quoted else len(text)
    return _section_end(heading.end(), limit, landmarks.separators, landmarks.sections)


def _section_end(start: int, limit: int, separators: tuple[int, ...], sections: tuple[int, ...]) -> int:
    """The first section after the last separator within reach; else the limit."""
    last = bisect_right(separators, min(limit, start + _REACH_CHARS)) - 1
    floor = max(start, separators[last]) if last >= 0 else start
    following = bisect_left(sections, floor)
    return min(limit, sections[following]) if following < len(sections) else limit


def _end_of_quote(text: str, start: int) -> int:
    """The start of the first line that is not quoted, from the line after `start` on."""
    position = text.find("\n", start) + 1
    while position and _QUOTE_LINE.match(text, position):
        position = text.find("\n", position) + 1
    return position or len(text)
