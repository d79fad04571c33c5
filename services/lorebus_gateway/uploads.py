"""Files that come as bodies, which are too large to be held in memory: kept on disk until the request is answered.

The rule that must not break: a file is read once and never beyond its limit, and is gone with its request.
"""

import contextlib
import hashlib
import re
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from starlette.types import Receive, Scope

from lorebus_contracts import memory_file
from lorebus_gateway.bodies import body_chunks, header
from lorebus_gateway.errors import FileTooLargeError, UnsupportedFileTypeError

IN_MEMORY_BYTES: Final = 1024 * 1024
"""Smaller files need no disk."""

_FILE_TYPE: Final = re.compile(
    rb'application/(?:x-ndjson|ndjson|jsonl|x-jsonlines)\s*(?:;\s*charset\s*=\s*"?utf-?8"?\s*)?',
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that was sent; `digest` is the SHA-256 of its bytes."""

    file: BinaryIO
    digest: bytes


@contextlib.asynccontextmanager
async def uploaded(
    scope: Scope, receive: Receive, *, seconds: float, most_bytes: int = memory_file.MAX_FILE_BYTES
) -> AsyncIterator[Upload]:
    """The body as a file, as long as the block lasts; each MiB of it has to come within so many seconds.

    Raises:
        UnsupportedFileTypeError: it says that it is something else than JSON Lines in UTF-8, or that it is packed.
        FileTooLargeError: it is announced with, or turns out to have, more bytes than that.
        BodyTooSlowError: it did not come in time.
        ClientDisconnect: the client went away.
    """
    _check_headers(scope, most_bytes)
    digest, length = hashlib.sha256(), 0
    with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES) as file:
        async for chunk in body_chunks(receive, seconds=seconds):
            length += len(chunk)
            if length > most_bytes:
                raise FileTooLargeError
            digest.update(chunk)
            file.write(chunk)
        yield Upload(file, digest.digest())  # type: ignore[arg-type]  # It has all that a file has.


def _check_headers(scope: Scope, most_bytes: int) -> None:
    media_type = header(scope, b"content-type")
    if media_type is not None and not _FILE_TYPE.fullmatch(media_type.strip()):
        raise UnsupportedFileTypeError
    if header(scope, b"content-encoding") not in {None, b"identity"}:
        raise UnsupportedFileTypeError
    announced = header(scope, b"content-length")
    if announced is not None and announced.isdigit() and int(announced) > most_bytes:
        raise FileTooLargeError
