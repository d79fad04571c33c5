"""The `lorebus` command as an operator calls it, with an environment of its own."""

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.testing import CliRunner

from lorebus_ops.cli import app


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said, and how it ended."""

    code: int
    output: str
    errors: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - JSON.
        """Standard output as one JSON document."""
        return json.loads(self.output)


@dataclass(frozen=True, slots=True)
class Shell:
    """A shell with these variables, and no other of Lorebus's."""

    variables: Mapping[str, str]

    async def lorebus(self, *words: str, typed: str | bytes | None = None, **more: str) -> Answer:
        """Run the command; `more` are further variables."""
        return await asyncio.to_thread(self._run, words, typed, more)

    def _run(self, words: tuple[str, ...], typed: str | bytes | None, more: Mapping[str, str]) -> Answer:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LOREBUS_")}
        with patch.dict(os.environ, {**kept, **self.variables, **more}, clear=True):
            ended = CliRunner().invoke(app, list(words), input=typed)
        if ended.exception is not None and not isinstance(ended.exception, SystemExit):
            raise ended.exception
        return Answer(ended.exit_code, ended.stdout, ended.stderr)


def shell(
    home: Path, *, database_url: str | None = None, bootstrap_servers: str | None = None, prefix: str = ""
) -> Shell:
    """A shell that knows these stores; `home` is a folder in which no local stack runs."""
    named = {
        "LOREBUS_HOME": str(home),
        "LOREBUS_DATABASE_URL": database_url,
        "LOREBUS_BOOTSTRAP_SERVERS": bootstrap_servers,
        "LOREBUS_TOPIC_PREFIX": prefix or None,
    }
    return Shell({name: value for name, value in named.items() if value is not None})
