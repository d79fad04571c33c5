"""Where things are: the repository, what is published, and memory that is a file system."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PUBLISHED: Final = ROOT / "docs" / "performance"
TMPFS: Final = Path("/dev/shm")  # noqa: S108 - A folder of our own is made in it.


def data_parent() -> Path | None:
    """A file system in memory, where there is one; None is the machine's usual place for temporary files."""
    return TMPFS if TMPFS.is_dir() else None


@contextmanager
def data_folder() -> Iterator[Path]:
    """A folder for a stack's data, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="lorebus-bench-", dir=data_parent()) as folder:
        yield Path(folder)
