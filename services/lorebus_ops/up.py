"""`lorebus up`: the local stack in the foreground until Ctrl-C or SIGTERM."""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from lorebus_ops.answers import say_json
from lorebus_ops.errors import EXIT_ALREADY_RUNNING, EXIT_FAILED, AlreadyRunningError, StackError
from lorebus_ops.home import Home, LocalInfo
from lorebus_ops.stack import LocalStack


class StartView:
    """Shows which steps of the start run, and how long each took."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("starting ...")
        self._began: dict[str, float] = {}
        self._first = time.monotonic()

    def begun(self, step: str) -> None:
        """The step began."""
        self._began[step] = time.monotonic()
        self._show()

    def done(self, step: str) -> None:
        """The step is done."""
        seconds = time.monotonic() - self._began.pop(step)
        self._console.print(f"[green]✓[/] {step:<11} [dim]{seconds:.1f} s[/]")
        self._show()

    @property
    def seconds(self) -> float:
        """Since the view was made."""
        return time.monotonic() - self._first

    @contextmanager
    def shown(self) -> Iterator[None]:
        """While the start goes on."""
        with self._status:
            yield

    def _show(self) -> None:
        self._status.update(f"starting {', '.join(self._began)} ...")


def up(folder: Path, *, as_json: bool = False) -> int:
    """Keep the stack of this folder up; gives the exit code: 0, 1 when a part did not start, 3 when it runs already.

    With `as_json`, standard output carries two lines, each a JSON object: `ready`, where everything is, and at the
    end `ended`, with the exit code and, where it is not 0, the reason. The programs' lines go to standard error.
    """
    console = Console(stderr=True, highlight=False)
    code, error = 0, None
    try:
        asyncio.run(_up(folder, console, as_json=as_json))
    except AlreadyRunningError as running:
        console.print(f"[yellow]{running}[/]", soft_wrap=True)
        code, error = EXIT_ALREADY_RUNNING, str(running)
    except StackError as failed:
        console.print(f"lorebus: {failed}", style="red", markup=False, soft_wrap=True)
        code, error = EXIT_FAILED, str(failed)
    if as_json:
        say_json({"event": "ended", "exit_code": code, "error": error}, indent=None)
    return code


async def _up(folder: Path, console: Console, *, as_json: bool) -> None:
    _cancel_on_signal()
    view = StartView(console)
    log = sys.stderr if as_json else sys.stdout
    # A signal cancels this task: everything that was started is left in good order, and the command ends well.
    with contextlib.suppress(asyncio.CancelledError):
        async with contextlib.AsyncExitStack() as entered:
            with view.shown():
                stack = await entered.enter_async_context(LocalStack(folder, log=log, progress=view))
            _show_where(console, stack.info, stack.home, view.seconds)
            if as_json:
                say_json(_ready(stack.info, stack.home, view.seconds), indent=None)
            try:
                await asyncio.Event().wait()
            finally:
                console.print("stopping ...", style="dim")
    console.print("stopped", style="dim")


def _ready(info: LocalInfo, home: Home, seconds: float) -> dict[str, object]:
    """Where everything is, without a secret: `key_file` has the key, `info_file` the whole address of the database."""
    database = urlsplit(info.database_url)
    return {
        "event": "ready",
        "seconds": round(seconds, 1),
        "gateway_url": info.gateway_url,
        "organization_uuid": info.organization_uuid,
        "bootstrap_servers": info.bootstrap_servers,
        "database": f"{database.hostname}:{database.port}",
        "services": info.services,
        "pid": info.pid,
        "key_file": str(home.key_path),
        "info_file": str(home.info_path),
        "log_file": str(home.log_path),
    }


def _cancel_on_signal() -> None:
    # The second signal interrupts the orderly end: what is left is killed.
    task = asyncio.current_task()
    if task is not None:
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(name, task.cancel)


def _show_where(console: Console, info: LocalInfo, home: Home, seconds: float) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_row("gateway", info.gateway_url)
    table.add_row("organization", info.organization_uuid)
    table.add_row("key, addresses", str(home.info_path))
    table.add_row("log", str(home.log_path))
    console.print(f"[bold green]Lorebus is up[/] after {seconds:.1f} s; Ctrl-C stops it.", table, sep="\n")
