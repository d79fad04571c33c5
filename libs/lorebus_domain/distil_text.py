"""Making the texts of a trace fit for a distiller: without recalled memory and secrets, and of bounded length.

The rule that must not break: a secret at the edge of a cut never survives in part, and neither a long output
nor a deep or wide input costs more than time linear in its size.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from lorebus_domain import policy
from lorebus_domain.recalled_block import strip_recalled
from lorebus_domain.redaction import mark, redact
from lorebus_domain.secret_patterns import is_secret_name

# A longer text is looked at in two windows only, its beginning and its end: 16 times what is kept of an output.
_WINDOW_CHARS: Final = 16_384
# What is thrown away at the inner edge of a window, where a secret may have been cut: longer than any that is
# not a key block, and those are known by either end. The unbroken run beyond it goes as well.
_EDGE_CHARS: Final = 4_096
_RUN_CHARS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+/=.%~"
# An input with more leaves than this is handled as one text: its shape says nothing a reader could use.
_MAX_LEAVES: Final = 1_000
# A string inside an input is cut no shorter than this before the input gives up its shape.
_MIN_STRING_CHARS: Final = 128
# More digits than any number of a record has; writing far longer ones out is refused by Python itself.
_MAX_NUMBER_BITS: Final = 512
_DEEPER: Final = "[deeper levels cut]"
_HIDDEN: Final = "secret"

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True, slots=True)
class PreparedText:
    """A text ready for a distiller, and how many secrets of each kind it had."""

    text: str
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PreparedInput:
    """A tool's input ready for a distiller: a JSON value, or the cut text of one that was too long."""

    value: Json
    counts: Mapping[str, int]


def prepare_text(text: str, limit: int) -> PreparedText:
    """The text without recalled memory and secrets, its middle cut out to `limit` code points (128 or more)."""
    head, tail, missing, counts = _windows(strip_recalled(text))
    return PreparedText(text=_join(head, tail, missing, limit), counts=counts)


def cut_middle(text: str, limit: int) -> str:
    """The text, or its beginning and end around a mark of how much was cut: `limit` code points at most.

    `limit` is 128 or more, so that there is room for the mark.
    """
    return _join(text, "", 0, limit)


def prepare_input(value: object, limit: int) -> PreparedInput:
    """A tool's input with every string (keys too) made ready; written as JSON it has at most `limit` code points.

    The value of a name such as `password` is a secret whatever it looks like. Strings are cut shorter, all
    alike, until the whole fits; failing that, and for an input of very many parts, the result is the cut text
    of its JSON. Levels below the 64th are cut.
    """
    plain = _plain(value, policy.MAX_JSON_DEPTH)
    if _leaves(plain) > _MAX_LEAVES:
        prepared = prepare_text(written(plain), limit)
        return PreparedInput(value=prepared.text, counts=prepared.counts)
    counts: Counter[str] = Counter()
    clear = _clear(plain, counts, limit, secret=False)
    return PreparedInput(value=_fitted(clear, limit), counts=dict(counts))


def written(value: Json) -> str:
    """A prepared input as a reader meets it, and as its length is counted: a text as it is, else its JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _windows(text: str) -> tuple[str, str, int, Mapping[str, int]]:
    """A redacted beginning, a redacted end, and how many code points are missing between the two."""
    if len(text) <= 2 * _WINDOW_CHARS:
        whole = redact(text)
        return whole.text, "", 0, whole.counts
    head = redact(text[:_WINDOW_CHARS])
    tail = redact(text[-_WINDOW_CHARS:])
    head_text = head.text[:-_EDGE_CHARS].rstrip(_RUN_CHARS)
    tail_text = tail.text[_EDGE_CHARS:].lstrip(_RUN_CHARS)
    dropped = len(head.text) - len(head_text) + len(tail.text) - len(tail_text)
    counts = Counter(head.counts) + Counter(tail.counts)
    return head_text, tail_text, len(text) - 2 * _WINDOW_CHARS + dropped, counts


def _join(head: str, tail: str, missing: int, limit: int) -> str:
    text = head + tail
    if not missing and len(text) <= limit:
        return text
    room = limit - len(_cut_mark(len(text) + missing))
    if missing and len(text) <= room:
        return head + _cut_mark(missing) + tail
    # Without a gap of its own the text may be cut anywhere; with one, each side keeps what it has up to half.
    ahead = text if not missing else head
    behind = text if not missing else tail
    kept_ahead = max(room - room // 2, room - len(behind))
    beginning = ahead[: min(kept_ahead, len(ahead))]
    end = behind[len(behind) - (room - len(beginning)) :]
    return beginning + _cut_mark(len(text) + missing - len(beginning) - len(end)) + end


def _cut_mark(count: int) -> str:
    return f"\n[... {count} characters cut ...]\n"


def _plain(value: object, levels: int) -> Json:
    """The value as JSON that can be written, whatever came in."""
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _MAX_NUMBER_BITS else f"[number of {value.bit_length()} bits]"
    if not levels:
        return _DEEPER
    if isinstance(value, Mapping):
        return {str(name): _plain(item, levels - 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, levels - 1) for item in value]
    return str(value)


def _leaves(value: Json) -> int:
    if isinstance(value, dict):
        return sum(_leaves(item) for item in value.values()) + len(value)
    if isinstance(value, list):
        return sum(_leaves(item) for item in value)
    return 1


def _clear(value: Json, counts: Counter[str], limit: int, *, secret: bool) -> Json:
    if isinstance(value, dict):
        return {
            _clear_text(name, counts, limit): _clear(
                item, counts, limit, secret=secret or is_secret_name(name)
            )
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_clear(item, counts, limit, secret=secret) for item in value]
    if value is None or isinstance(value, bool) or value == "":
        return value
    if secret:
        counts[_HIDDEN] += 1
        return mark(_HIDDEN)
    if isinstance(value, str):
        return _clear_text(value, counts, limit)
    as_text = str(value)
    clear = _clear_text(as_text, counts, limit)
    return value if clear == as_text else clear


def _clear_text(text: str, counts: Counter[str], limit: int) -> str:
    prepared = prepare_text(text, limit)
    counts.update(prepared.counts)
    return prepared.text


def _fitted(value: Json, limit: int) -> Json:
    """The value with its strings cut shorter and shorter until it fits; else the cut text of its JSON."""
    string_limit = limit
    while string_limit >= _MIN_STRING_CHARS:
        shorter = _shortened(value, string_limit)
        if len(written(shorter)) <= limit:
            return shorter
        string_limit //= 2
    return cut_middle(written(value), limit)


def _shortened(value: Json, limit: int) -> Json:
    if isinstance(value, dict):
        return {name: _shortened(item, limit) for name, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item, limit) for item in value]
    return cut_middle(value, limit) if isinstance(value, str) else value
