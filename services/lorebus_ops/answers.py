"""How a command answers: one JSON document or text for people on standard output, errors on standard error.

The rule that must not break: with `--json`, standard output carries JSON and nothing else.
"""

import asyncio
import json
import sys
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import Final, NoReturn, TypeVar
from uuid import UUID

import typer
from rich.console import Console
from rich.table import Table

from lorebus_ops.errors import EXIT_FAILED, EXIT_UNREACHABLE, RefusedError, UnreachableError
from lorebus_store.errors import PermanentError, TransientError
from lorebus_store.logins import UnheldLoginError

AnswerT = TypeVar("AnswerT")

_WIDE: Final = 200
"""Columns of a table that goes into a pipe."""


def carried_out(work: Coroutine[None, None, AnswerT]) -> AnswerT:
    """What the work gives; where it fails, the command ends with one line on standard error.

    Raises:
        typer.Exit: 1 for what was refused, 3 for what cannot be reached.
    """
    try:
        return asyncio.run(work)
    except (RefusedError, PermanentError, UnheldLoginError) as error:
        fail(str(error))
    except (UnreachableError, TransientError) as error:
        fail(str(error), code=EXIT_UNREACHABLE)


def fail(text: str, *, code: int = EXIT_FAILED) -> NoReturn:
    """End the command with one line on standard error.

    Raises:
        typer.Exit: always.
    """
    note(text)
    raise typer.Exit(code)


def note(text: str) -> None:
    """Say something on standard error."""
    sys.stderr.write(f"lorebus: {text}\n")


def say(text: str) -> None:
    """A line for people on standard output."""
    sys.stdout.write(f"{text}\n")


def say_json(value: object, *, indent: int | None = 2) -> None:
    """A JSON document on standard output; without `indent`, a line of JSON Lines."""
    sys.stdout.write(json.dumps(value, indent=indent, default=_plain, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def say_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table for people on standard output; None is an empty cell."""
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    console.print(table)


def say_fields(fields: Mapping[str, object]) -> None:
    """Names and values for people on standard output; None is left out."""
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        if value is not None:
            say(f"{name:<{width}}  {value}")


def ago(moment: datetime, now: datetime) -> str:
    """How long ago a moment was, in its largest unit: `14 s`, `3 min`, `5 h`, `2 d`."""
    seconds = max(0, int((now - moment).total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _plain(value: object) -> object:
    """What JSON has no form for."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
