"""The user that PostgreSQL runs as when we are root: the server refuses to run as root itself."""

import os
import pwd
import subprocess
import time
from pathlib import Path
from typing import Final

from lorebus_ops.errors import StackError
from lorebus_ops.processes import Account

USER: Final = "lorebus-postgres"
_TRIES: Final = 50
_WAIT_SECONDS: Final = 0.1


def account_for(folder: Path) -> Account | None:
    """None unless we are root; then whoever owns the data folder, or else a system user of our own.

    Raises:
        StackError: the system user is not there and cannot be made.
    """
    if os.geteuid() != 0:
        return None
    if folder.exists() and folder.stat().st_uid != 0:
        return Account(folder.stat().st_uid, folder.stat().st_gid)
    return _system_user()


def _system_user() -> Account:
    for _ in range(_TRIES):
        try:
            entry = pwd.getpwnam(USER)
        except KeyError:
            _add_user()
        else:
            return Account(entry.pw_uid, entry.pw_gid)
    raise StackError(f"the system user {USER} could not be made; run as a user other than root")


def _add_user() -> None:
    command = (
        "useradd",
        "--system",
        "--user-group",
        "--no-create-home",
        "--shell",
        "/usr/sbin/nologin",
        USER,
    )
    try:
        added = subprocess.run(command, check=False, capture_output=True)  # noqa: S603 - Fixed words.
    except FileNotFoundError as error:
        raise StackError(
            f"as root, PostgreSQL needs the user {USER} and there is no useradd; run as a user other than root"
        ) from error
    if added.returncode != 0:
        # Somebody else may be adding it at this moment and hold the lock of the user database.
        time.sleep(_WAIT_SECONDS)
