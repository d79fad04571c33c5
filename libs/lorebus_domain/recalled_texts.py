"""Taking the texts that a session was handed out of what it said and saw.

The rule that must not break: what the ordered strategies hand out has no heading by which `recalled_block` could know
it, so that each text is looked for as it is, as JSON writes it within a tool's answer or a list of entries, and as JSON
writes such a list within a tool's answer.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

MIN_CHARS: Final = 16
"""A shorter text is left where it is: it may stand there by itself, and teaches little."""


class RecalledTexts:
    """The texts of a session's recalls, in every spelling that they are looked for in."""

    def __init__(self, texts: Sequence[str]) -> None:
        spellings = {spelt for text in texts if len(text) >= MIN_CHARS for spelt in _spellings(text)}
        # A text that holds another one goes first, and so goes whole.
        self._spellings = tuple(sorted(spellings, key=lambda spelt: (-len(spelt), spelt)))

    def taken_out(self, text: str) -> str:
        """The text without them. Linear in its length for each of them."""
        for spelt in self._spellings:
            if spelt in text:
                text = text.replace(spelt, "")
        return text

    def taken_out_of(self, value: object) -> object:
        """A JSON value with every string, keys left aside, without them."""
        if not self._spellings:
            return value
        if isinstance(value, str):
            return self.taken_out(value)
        if isinstance(value, Mapping):
            return {name: self.taken_out_of(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.taken_out_of(item) for item in value]
        return value


NOTHING_RECALLED: Final = RecalledTexts(())


def _spellings(text: str) -> set[str]:
    once = _as_json_writes(text)
    return {text} | once | {again for spelt in once for again in _as_json_writes(spelt)}


def _as_json_writes(text: str) -> set[str]:
    return {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
