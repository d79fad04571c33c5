"""Files that only their owner reads: passwords, keys, where the local stack is."""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

_OWNER_ONLY: Final = 0o600
_SECRET_BYTES: Final = 32


def write_private(path: Path, text: str) -> None:
    """Write a file that only we can read, whole or not at all."""
    new = path.with_name(f"{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY), "w") as file:
        file.write(text)
    new.replace(path)


def read_private(path: Path) -> str | None:
    """What the file says; None when there is none."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return None


def kept_secret(path: Path) -> str:
    """The secret in this file, made at random the first time; 43 characters."""
    kept = read_private(path)
    if kept is not None:
        return kept
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    write_private(path, secret)
    return secret
