"""Reducing a tool's error to what it says about the tool, without anything that belongs to a record.

The rule that must not break: a token of an error text is kept only if it is a known plain word, a part of the
tool's own name or of its arguments' names, or the name of a built-in exception. Every other token, whatever it
is, becomes `…`.
"""

import json
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from lorebus_domain.plain_words import PLAIN_WORDS

GAP: Final = "…"
_MAX_TEMPLATE_CHARS: Final = 120
_MIN_WORDS: Final = 2
# Where a message stands in an output: near its top, or (a traceback) on its last line.
_TOP_LINES: Final = 20
_MAX_LINE_CHARS: Final = 500
_JSON_NAMES: Final = ("error", "message", "detail", "error_message", "reason")
_TRACEBACK: Final = "Traceback (most recent call last)"
_RAISED: Final = re.compile(r"(?:[\w.]{0,80}\.)?[A-Z]\w{0,60}(?:Error|Exception|Exit|Interrupt)\b")
_ERROR_LINE: Final = re.compile(
    r"(?i:error|fatal|failed|failure|exception|panic|[\w.-]{1,40}: (?:error|cannot|command not found))\b"
    rf"|{_RAISED.pattern}"
)
_ERROR_WORD: Final = re.compile(
    r"(?i)\b(?:error|errors|error\(s\)|cannot|can't|could not|couldn't|unable|denied|invalid|not|failed|refused|"
    r"forbidden|missing|unknown|timed out|timeout|no such|exceeded|unexpected|unauthorized|too many)(?!\w)"
)
_LABEL: Final = re.compile(
    r"(?i:(?:tool|api|server|client)?[ _-]?error|fatal|exception|failed|failure)\s*[:!-]\s*"
)
_SENTENCE_END: Final = re.compile(r"[.!?](?:\s|$)")
_TOKEN: Final = re.compile(r"(?P<open>[(\[{\"'`<]*)(?P<core>.*?)(?P<close>[)\]}\"'`>.,;:!?]*)")
_WORD: Final = re.compile(r"[a-z]+(?:'[a-z]+)?")
_NAME_PARTS: Final = re.compile(r"[a-z]{3,}")
_BUILTIN_NAMES: Final = """
    ArithmeticError AssertionError AttributeError BrokenPipeError ConnectionError ConnectionRefusedError
    ConnectionResetError EOFError FileExistsError FileNotFoundError ImportError IndentationError IndexError
    InterruptedError IsADirectoryError KeyError KeyboardInterrupt LookupError MemoryError ModuleNotFoundError
    NameError NotADirectoryError NotImplementedError OSError OverflowError PermissionError ProcessLookupError
    RecursionError ReferenceError RuntimeError StopIteration SyntaxError SystemError SystemExit TabError
    TimeoutError TypeError UnboundLocalError UnicodeDecodeError UnicodeEncodeError UnicodeError ValueError
    ZeroDivisionError
"""
_BUILTIN_EXCEPTIONS: Final = frozenset(_BUILTIN_NAMES.split())


def error_message(output: str) -> str | None:
    """The one sentence in which an output says what went wrong; None when it says nothing of the kind.

    It still holds whatever the tool put into it: for `error_template` only.
    """
    value = _json_object(output)
    message = _text_message(output) if value is None else _json_message(value)
    if message is None:
        return None
    end = _SENTENCE_END.search(message)
    return message[: end.start()] if end else message


def error_template(message: str, *, names: AbstractSet[str], capitalised: AbstractSet[str]) -> str | None:
    """The message with `…` for every token that may belong to a record; at most 120 code points.

    `names` are the tool's name and its arguments' names, whose parts are kept. `capitalised` are the words that
    records write with a capital, in lower case: one of these is not kept as a message's first word. None when
    fewer than two words are left.
    """
    known = PLAIN_WORDS | {part for name in names for part in _NAME_PARTS.findall(name)}
    label = _LABEL.match(message)
    tokens = message[label.end() if label else 0 :].replace("(s)", "s").split()
    kept: list[str] = []
    words = 0
    for position, token in enumerate(tokens):
        begins = position == 0 or kept[-1].rstrip(":") in _BUILTIN_EXCEPTIONS
        clear = _clear_token(token, known, capitalised, begins=begins)
        if clear.startswith(GAP) and kept and kept[-1] == GAP:
            kept[-1] = clear
            continue
        if sum(map(len, kept)) + len(kept) + len(clear) > _MAX_TEMPLATE_CHARS:
            break
        words += not clear.startswith(GAP)
        kept.append(clear)
    return " ".join(kept).rstrip(",;:") if words >= _MIN_WORDS else None


def _clear_token(token: str, known: AbstractSet[str], capitalised: AbstractSet[str], *, begins: bool) -> str:
    match = _TOKEN.fullmatch(token)
    core, close = (match["core"], match["close"]) if match else ("", "")
    pause = close[-1:] if close[-1:] in {",", ";", ":"} else ""
    word = core.lower() if begins and core[:1].isupper() and core.lower() not in capitalised else core
    if core in _BUILTIN_EXCEPTIONS or (_WORD.fullmatch(word) and word in known):
        return core + pause
    return GAP + pause.replace(":", "")


def _json_object(output: str) -> Mapping[str, object] | None:
    if not output.startswith("{"):
        return None
    try:
        value: object = json.loads(output)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _json_message(value: Mapping[str, object]) -> str | None:
    """The text under a name such as `error`, or one level below it."""
    found = next((value[name] for name in _JSON_NAMES if value.get(name)), None)
    if isinstance(found, dict):
        found = next((found[name] for name in _JSON_NAMES if found.get(name)), None)
    return found[:_MAX_LINE_CHARS] if isinstance(found, str) else None


def _text_message(output: str) -> str | None:
    lines = [line.strip()[:_MAX_LINE_CHARS] for line in output.splitlines() if line.strip()]
    if not lines:
        return None
    if _TRACEBACK in output:
        raised = [line for line in lines if _RAISED.match(line)]
        return raised[-1] if raised else None
    for line in lines[:_TOP_LINES]:
        if _ERROR_LINE.match(line):
            return line
    first = lines[0]
    return first if _ERROR_WORD.search(first) and not first.lower().startswith("warn") else None
