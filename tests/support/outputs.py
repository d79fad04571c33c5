"""Whatever the system says beside its answers, searched for what it may never say: memory text, tokens and keys.

Texts of tests that are worth finding have a canary in them (`CANARY`, or any word of that form); tokens and keys are
recognised by their form. Logs of services, their metrics, headers of dead letters, what failed runs say in the database
and the bodies of refusals are handed over here by whoever starts and ends these.

The rule that must not break: a finding says where it was, and never what was found.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from lorebus_kit.logs import JsonFormatter

CANARY: Final = "cnryspeaking"
"""A word for texts that no output may hold."""

_SECRETS: Final[Mapping[str, re.Pattern[str]]] = {
    "a memory text": re.compile(r"cnry[a-z]{8}"),
    "a session token": re.compile(r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{20,}"),
    "an API key": re.compile(r"lrb_[\w-]{40,}"),
}
_SHOWN_BEFORE: Final = 60
_PLAIN: Final = re.compile(r"[^\w .:=\"{},-]")


@dataclass(slots=True)
class Outputs:
    """Everything that was said, in one process of the tests; findings wait until they are asked for."""

    searched: int = 0
    """Characters."""

    _findings: list[str] = field(default_factory=list)

    def search(self, place: str, text: str) -> None:
        """Look through a text that came out at this place."""
        self.searched += len(text)
        for what, shape in _SECRETS.items():
            found = shape.search(text)
            if found is not None:
                self._findings.append(f"{what} in {place}, after {_before(text, found.start())!r}")

    def findings(self) -> list[str]:
        """What was found since this was asked last."""
        found, self._findings = self._findings, []
        return found


OUTPUTS: Final = Outputs()
"""Those of this process."""


class LogSearch(logging.Handler):
    """Searches what the product logs in the tests' own process, in the form in which a service writes it."""

    def __init__(self, outputs: Outputs) -> None:
        super().__init__()
        self._outputs = outputs
        self.setFormatter(JsonFormatter("tests"))

    def emit(self, record: logging.LogRecord) -> None:
        """Search one record."""
        self._outputs.search(f"the log of {record.name}", self.format(record))


@contextmanager
def logs_searched(outputs: Outputs) -> Iterator[None]:
    """While this is open, what the product logs here is searched."""
    handler = LogSearch(outputs)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


def _before(text: str, start: int) -> str:
    """The end of the line before a finding, without anything that may be a part of a secret."""
    line = text[max(0, start - _SHOWN_BEFORE) : start].rpartition("\n")[2]
    for shape in _SECRETS.values():
        line = shape.sub("...", line)
    return _PLAIN.sub("?", line)
