"""A real PostgreSQL of our own: its data in one folder, reached on the loopback address with a password.

The rule that must not break: whoever may enter the folder may read the memory, and nobody else. The server
listens on nothing but loopback, every connection needs the password, and no permission of a foreign folder is
widened for it.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final
from urllib.parse import quote

from lorebus_ops.errors import StackError
from lorebus_ops.ports import LOOPBACK
from lorebus_ops.postgres_account import account_for
from lorebus_ops.postgres_binaries import bin_folder
from lorebus_ops.private_files import kept_secret, write_private
from lorebus_ops.processes import Account, Program

USER: Final = "lorebus"
SERVICE_USER: Final = "lorebus_service"
"""Who owns nothing; the stack makes this login when the tables are there."""

DATABASE: Final = "lorebus"
MAX_CONNECTIONS: Final = 200
STOP_SECONDS: Final = 20.0
_OWNER_ONLY: Final = 0o700
_STATUS_LINE: Final = 7
_CREATE: Final = f"CREATE DATABASE {DATABASE}\n"

_SETTINGS: Final = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": str(MAX_CONNECTIONS),
    "shared_buffers": "256MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    # The log never has memory text: neither statements nor the values that a message would show.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}
_THROWAWAY_SETTINGS: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class EmbeddedPostgres:
    """PostgreSQL 18 from the wheel; its owner runs `program` after `prepare` and calls `close` at the end.

    `folder` gets `postgres/` (the data), `postgres.password` and `postgres.service.password`. `durable=False` is for
    data that nobody will miss: nothing is flushed to the disk.
    """

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.data_folder = folder / "postgres"
        self._password_file = folder / "postgres.password"
        self._service_password_file = folder / "postgres.service.password"
        self._durable = durable
        self._account: Account | None = None
        self._bin = Path()
        self._folder_fd: int | None = None

    def prepare(self) -> None:
        """Make the data folder if it is not there yet, in half a second; blocks meanwhile.

        Raises:
            StackError: the programs cannot be run, or the folder cannot be made.
        """
        self._account = account_for(self.data_folder)
        self._bin = bin_folder(self._account)
        if not self.data_folder.exists():
            self._initialize()
        self._folder_fd = os.open(self.data_folder, os.O_RDONLY | os.O_DIRECTORY)

    def program(self, port: int) -> Program:
        """The server at this port; fast shutdown first, then immediate (which recovers at the next start)."""
        if self._folder_fd is None:
            raise StackError("the data folder of PostgreSQL is not prepared")
        settings = {**_SETTINGS, "port": str(port), **({} if self._durable else _THROWAWAY_SETTINGS)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return Program(
            name="database",
            argv=(str(self._bin / "postgres"), "-D", self._path_for_server(self._folder_fd), *options),
            env={"PATH": os.defpath, "LC_ALL": "C"},
            account=self._account,
            pass_fds=(self._folder_fd,),
            stop_signals=(signal.SIGINT, signal.SIGQUIT),
            stop_seconds=STOP_SECONDS,
            death_signal=signal.SIGINT,
        )

    def is_ready(self, process_id: int) -> bool:
        """True when the server with this process id takes connections; it says so in its own folder."""
        try:
            lines = (self.data_folder / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return (
            len(lines) > _STATUS_LINE
            and lines[0] == str(process_id)
            and lines[_STATUS_LINE].strip() == "ready"
        )

    def url(self, port: int, database: str = DATABASE) -> str:
        """Where its owner connects, password included."""
        return _url(USER, self._password_file.read_text().strip(), port, database)

    def service_url(self, port: int, database: str = DATABASE) -> str:
        """Where services connect, password included; somebody makes the login."""
        return _url(SERVICE_USER, kept_secret(self._service_password_file), port, database)

    def close(self) -> None:
        """Let go of the data folder; one that is not durable is removed."""
        if self._folder_fd is not None:
            os.close(self._folder_fd)
            self._folder_fd = None
        if not self._durable:
            shutil.rmtree(self.data_folder, ignore_errors=True)

    def _path_for_server(self, folder_fd: int) -> str:
        # The server's user need not be able to enter the folders above its own: it gets the opened folder.
        if self._account is not None and sys.platform == "linux":
            return f"/proc/self/fd/{folder_fd}"
        return str(self.data_folder.resolve())

    def _initialize(self) -> None:
        # Made aside and renamed when whole, so that an interrupted start leaves no half of a database.
        new = self.data_folder.with_name(f"{self.data_folder.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True, mode=_OWNER_ONLY)
        if self._account is not None:
            os.chown(new, self._account.user_id, self._account.group_id)
        folder_fd = os.open(new, os.O_RDONLY | os.O_DIRECTORY)
        try:
            path = self._path_for_server(folder_fd) if self._account else str(new.resolve())
            self._run_initdb(path, folder_fd)
            # Flushing is left to the kernel: in the first half minute there is nothing to lose yet.
            self._run(
                "postgres", "--single", "-F", "-D", path, "postgres", fds=(folder_fd,), input_text=_CREATE
            )
        finally:
            os.close(folder_fd)
        new.rename(self.data_folder)

    def _run_initdb(self, path: str, folder_fd: int) -> None:
        password = secrets.token_urlsafe(24)
        with tempfile.TemporaryFile("w+") as password_file:
            password_file.write(password + "\n")
            password_file.flush()
            password_file.seek(0)
            password_fd = password_file.fileno()
            if self._account is not None:
                os.fchown(password_fd, self._account.user_id, self._account.group_id)
            self._run(
                "initdb",
                *("-D", path, "-U", USER, "--auth=scram-sha-256", f"--pwfile=/dev/fd/{password_fd}"),
                *("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
                *("--no-sync", "--no-instructions"),
                fds=(folder_fd, password_fd),
            )
        write_private(self._password_file, password)

    def _run(self, name: str, *words: str, fds: tuple[int, ...], input_text: str | None = None) -> None:
        account = self._account
        done = subprocess.run(  # noqa: S603 - A program of the wheel with words of this module.
            (str(self._bin / name), *words),
            check=False,
            input=input_text,
            text=True,
            capture_output=True,
            env={"PATH": os.defpath, "LC_ALL": "C"},
            cwd="/",
            pass_fds=fds,
            user=account.user_id if account else None,
            group=account.group_id if account else None,
            extra_groups=[] if account else None,
        )
        if done.returncode != 0:
            raise StackError(f"{name} failed: {done.stderr.strip() or done.stdout.strip()}")


def _url(user: str, password: str, port: int, database: str) -> str:
    return f"postgresql://{user}:{quote(password, safe='')}@{LOOPBACK}:{port}/{database}"
