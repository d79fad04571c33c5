"""What the documents have somebody type at night are commands and options that there are."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.unit.ops.test_every_command import COMMANDS, options_of

ROOT: Final = Path(__file__).parents[3]
PAGES: Final = ("README.md", "docs/runbook.md", "docs/operations.md", "deploy/prometheus/alerts.yml")
_CODE: Final = re.compile(r"```\w*\n(.*?)```|`([^`]+)`", re.DOTALL)
_CALL: Final = re.compile(r"(?<!-n )\blorebus ((?:[a-z]+\b ?)[^\n|;`)]*)")


def calls(page: str) -> Iterator[list[str]]:
    """The words behind `lorebus` of each call in a page's code."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for block, span in _CODE.findall(text):
        for found in _CALL.findall((block or " ".join(span.split())).replace("\\\n", " ")):
            yield shlex.split(found.partition("#")[0].partition(" ->")[0], posix=False)


def named(words: list[str]) -> str | None:
    """The command that these words call, if they call one; a group by itself is none."""
    return next((name for name in (" ".join(words[:2]), words[0]) if name in COMMANDS), None)


@pytest.mark.parametrize("page", PAGES)
def test_every_call_in_a_page_has_only_options_of_its_command(page: str) -> None:
    unknown = []
    for words in calls(page):
        name = named(words)
        options = {word.partition("=")[0].rstrip(".,") for word in words if word.startswith("--")}
        if options and (name is None or options - options_of(COMMANDS[name]) - {"--help"}):
            unknown.append(" ".join(words))
    assert unknown == []


def test_the_runbook_has_calls_of_all_kinds() -> None:
    names = {named(words) for words in calls("docs/runbook.md")}

    assert {"doctor", "lag", "dlq list", "dlq show", "dlq replay", "runs retry", "keys create"} <= names
