r"""Text inside a quoted literal, such as a JSON string in a tool's answer, told by how its newlines are written.

The rule that must not break: a quote that belongs to the literal's own text is not taken for its end.
"""

import re
from typing import Final

ESCAPED_NEWLINE: Final = re.compile(r"[^\S\n]*(?P<backslashes>\\+)(?:r\\+)?n")


def closing_quote(text: str, opening: re.Match[str], backslashes: int) -> int:
    r"""Where the literal around `opening` ends: a literal whose newline is `\n` with so many backslashes.

    A quote inside the literal has more backslashes before it than that newline has; its closing quote fewer. Where the
    literal was cut off, it ends with the text.
    """
    before = text[opening.start() - 1 : opening.start()]
    quote = before if before in ("'", "`") else '"'
    closing = re.compile(rf"(?<!\\)\\{{0,{backslashes - 1}}}{quote}")
    match = closing.search(text, opening.end())
    return match.start() if match else len(text)
