"""The folder of a local stack (`.lorebus/`): its lock, its secrets, and where its parts are while it runs.

The rule that must not break: one stack a folder at a time, and `local.json` is there only while all of it is up.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from lorebus_ops.errors import AlreadyRunningError
from lorebus_ops.private_files import write_private

DEFAULT_FOLDER: Final = ".lorebus"
FOLDER_VARIABLE: Final = "LOREBUS_HOME"
_OWNER_ONLY: Final = 0o700


@dataclass(frozen=True, slots=True)
class LocalInfo:
    """Where a running local stack is; the file `local.json` has the same fields."""

    gateway_url: str
    """Empty when the stack was started without a gateway."""

    api_key: str
    organization_uuid: str
    bootstrap_servers: str
    database_url: str
    """As services connect to it."""

    migrations_database_url: str
    """As its owner does."""

    services: Mapping[str, str]
    """For each service the address of its HTTP: /health/ready, /metrics."""

    pid: int


def default_home() -> Path:
    """LOREBUS_HOME, or else `.lorebus` in the current folder."""
    return Path(os.environ.get(FOLDER_VARIABLE) or DEFAULT_FOLDER).absolute()


class Home:
    """One such folder; made when it is not there, for its owner only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.info_path = folder / "local.json"
        self.key_path = folder / "api.key"
        self.log_path = folder / "log" / "lorebus.log"
        self._lock_path = folder / "lock"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder; the kernel lets go of it when we die.

        Raises:
            AlreadyRunningError: another process holds it; the text says where that one is.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=_OWNER_ONLY)
        with self._lock_path.open("a+") as file:
            if not _lock(file.fileno(), fcntl.LOCK_EX):
                raise AlreadyRunningError(self._who_runs())
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            # Left by a stack that was killed.
            self.withdraw()
            yield

    def publish(self, info: LocalInfo) -> None:
        """Say where everything is, to our own user only."""
        write_private(self.info_path, json.dumps(asdict(info), indent=2) + "\n")

    def withdraw(self) -> None:
        """Say no longer where anything is."""
        self.info_path.unlink(missing_ok=True)

    def running(self) -> LocalInfo | None:
        """Where the stack of this folder is; None when none is up."""
        with contextlib.suppress(FileNotFoundError), self._lock_path.open() as file:
            # A shared lock is refused only while a stack holds the folder.
            if not _lock(file.fileno(), fcntl.LOCK_SH):
                return LocalInfo(**json.loads(self.info_path.read_text()))
        return None

    def _who_runs(self) -> str:
        process_id = self._lock_path.read_text().strip() or "unknown"
        info = self.running()
        where = f"its gateway is {info.gateway_url}" if info else "it is starting or stopping"
        return f"Lorebus already runs in {self.folder} (process {process_id}); {where}"


def _lock(file_descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(file_descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
