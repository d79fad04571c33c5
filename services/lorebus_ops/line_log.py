"""One log for many programs: `name | line` on the terminal and in a file."""

import logging
import re
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final, TextIO

MOST_BYTES: Final = 16 * 1024 * 1024
KEPT_FILES: Final = 2
OWN_NAME: Final = "lorebus"
_NAME_WIDTH: Final = 8
_COLOURS: Final = (36, 33, 32, 35, 34, 96, 93)
_RESET: Final = "\x1b[0m"

_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What could move a terminal's cursor or worse; a tab may stay."""


class LineLog:
    """Lines of many programs in one order, each under its program's name."""

    def __init__(self, path: Path, terminal: TextIO | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = RotatingFileHandler(path, maxBytes=MOST_BYTES, backupCount=KEPT_FILES, encoding="utf-8")
        self._colours: dict[str, int] = {}
        self.show_on(terminal)

    def show_on(self, terminal: TextIO | None) -> None:
        """From now on show every line there too; with colours where people look."""
        self._terminal = terminal
        self._coloured = terminal is not None and terminal.isatty()

    def say(self, text: str) -> None:
        """A line of the stack itself."""
        self.write(OWN_NAME, text)

    def write(self, name: str, text: str) -> None:
        """One line of the program `name`; control characters become U+FFFD."""
        clean = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
        label = _label(name)
        self._file.emit(logging.makeLogRecord({"msg": f"{label} {clean}"}))
        if self._terminal is None:
            return
        try:
            self._terminal.write(f"{self._paint(name, label)} {clean}\n")
            self._terminal.flush()
        except OSError:
            # The terminal was closed, or its reader ended: the file goes on.
            self._terminal = None

    def tail(self, name: str, count: int) -> tuple[str, ...]:
        """The last `count` lines of this program in the file, oldest first."""
        lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        return tuple(line for line in lines if line.startswith(_label(name)))[-count:]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _paint(self, name: str, label: str) -> str:
        if not self._coloured:
            return label
        colour = self._colours.setdefault(name, _COLOURS[len(self._colours) % len(_COLOURS)])
        return f"\x1b[{colour}m{label}{_RESET}"


def _label(name: str) -> str:
    return f"{name:<{_NAME_WIDTH}} |"


class LineSplitter:
    """Puts the bytes of one program together to lines."""

    def __init__(self, log: LineLog, name: str) -> None:
        self._log = log
        self._name = name
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Take bytes as they come; whole lines are written at once."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._write(line)
        if len(self._rest) > MOST_BYTES // 16:
            self.close()

    def close(self) -> None:
        """Write what is left without a line's end."""
        if self._rest:
            self._write(self._rest)
            self._rest = b""

    def _write(self, line: bytes) -> None:
        self._log.write(self._name, line.decode("utf-8", errors="replace").rstrip("\r"))
