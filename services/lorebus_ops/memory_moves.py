"""What `lorebus memory export` and `lorebus memory import` do.

The rule that must not break: a file that a command names is there whole, or not at all.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final
from uuid import UUID

from lorebus_contracts import wire
from lorebus_contracts.http_memory import ImportAnswer
from lorebus_contracts.memory_file import FileEnd
from lorebus_contracts.wire import WireError
from lorebus_ops.answers import carried_out, fail, note, say_fields, say_json
from lorebus_ops.errors import RefusedError
from lorebus_ops.gateway_client import MEMORY, gateway, sound

CHUNK_BYTES: Final = 64 * 1024
_LAST_BYTES: Final = 1_024
"""More than the line that ends a file has."""


def export_entries(agent_config: UUID, output: Path | None, *, as_json: bool) -> None:
    """Write the entries to a file or to standard output, and tell how many.

    Raises:
        typer.Exit: 1, the gateway refused or broke off; 3, it cannot be reached.
    """
    with contextlib.nullcontext(sys.stdout.buffer) if output is None else _new_file(output) as file:
        entries = carried_out(_export(agent_config, file))
        file.flush()
    if output is not None and as_json:
        say_json({"file": str(output), "entries": entries})
    else:
        note(f"{entries} entries exported")


def import_entries(agent_config: UUID, path: Path, *, as_json: bool) -> None:
    """Send a file, and tell what became of its entries.

    Raises:
        typer.Exit: 1, the file is at fault or not there; 3, the gateway cannot be reached.
    """
    answer = carried_out(_import(agent_config, path))
    if as_json:
        say_json(answer.model_dump(mode="json"))
    else:
        say_fields(dict(answer))


async def _export(agent_config: UUID, file: BinaryIO) -> int:
    last = b""
    asked = {"agent_config_uuid": str(agent_config)}
    async with gateway() as client, client.stream("GET", f"{MEMORY}/export", params=asked) as answer:
        await sound(answer)
        async for chunk in answer.aiter_bytes():
            file.write(chunk)
            last = (last + chunk)[-_LAST_BYTES:]
    try:
        return wire.parse(FileEnd, last.rstrip(b"\n").rpartition(b"\n")[2]).entries
    except WireError as error:
        raise RefusedError("the gateway broke off: this is no whole file; do it again") from error


async def _import(agent_config: UUID, path: Path) -> ImportAnswer:
    asked = {"agent_config_uuid": str(agent_config)}
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if path == Path("-") else path.open("rb") as file:
            async with gateway() as client:
                answer = await client.post(
                    f"{MEMORY}/import",
                    params=asked,
                    content=_chunks(file),
                    headers={"content-type": "application/x-ndjson"},
                )
                return ImportAnswer.model_validate_json((await sound(answer)).content)
    except OSError as error:
        raise RefusedError(f"{path}: {error.strerror}") from error


async def _chunks(file: BinaryIO) -> AsyncIterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """A file beside `path` that takes its place at the end, unless something went wrong."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        fail(f"{path}: {error.strerror}")
    made = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        made.replace(path)
    finally:
        made.unlink(missing_ok=True)
