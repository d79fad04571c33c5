"""A folder that is made once, whoever else wants it at the same time."""

import fcntl
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

_ENTERED_BY_ALL: Final = 0o755


def made_once(folder: Path, make: Callable[[Path], None], *, is_whole: Callable[[Path], bool]) -> None:
    """Have `folder` whole: `make` fills a path beside it that takes its name at the end.

    One process makes it and the others wait for that one; one that ends midway leaves nothing half, and the next
    makes it. What is there and not whole is made anew.
    """
    if is_whole(folder):
        return
    folder.parent.mkdir(parents=True, exist_ok=True, mode=_ENTERED_BY_ALL)
    # The kernel lets go of the lock when its holder dies. The file stays: who removed it would let two hold it.
    with (folder.parent / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_whole(folder):
            return
        shutil.rmtree(folder, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-") as aside:
            made = Path(aside) / folder.name
            make(made)
            made.rename(folder)
