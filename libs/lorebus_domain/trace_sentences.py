"""The sentences that the rules write: tool names, argument names and error templates, never a value.

The rule that must not break: no number and no count stands in a sentence, so that the same lesson from another
session has the same fingerprint and reinforces.
"""

from collections.abc import Sequence
from typing import Final

# More names than this say nothing that a reader could use.
_MAX_NAMES: Final = 3


def joined(names: Sequence[str]) -> str:
    """`a`, `b` and `c`; more than three are "several arguments"."""
    if len(names) > _MAX_NAMES:
        return "several arguments"
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def in_order(tools: Sequence[str]) -> str:
    """`a`, then `b`, then `c`."""
    return ", then ".join(f"`{tool}`" for tool in tools)


def when_fails(tool: str, error: str) -> str:
    """The beginning that every lesson about a failing tool has."""
    return f'When `{tool}` fails with "{error}"'
