"""`lorebus up`: the local stack in the foreground until Ctrl-C or SIGTERM."""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

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


def up(folder: Path) -> int:
    """Keep the stack of this folder up; gives the exit code: 0, 1 when a part did not start, 3 when it runs already."""
    console = Console(stderr=True, highlight=False)
    try:
        asyncio.run(_up(folder, console))
    except AlreadyRunningError as error:
        console.print(f"[yellow]{error}[/]", soft_wrap=True)
        return EXIT_ALREADY_RUNNING
    except StackError as error:
        console.print(f"lorebus: {error}", style="red", markup=False, soft_wrap=True)
        return EXIT_FAILED
    return 0


async def _up(folder: Path, console: Console) -> None:
    _cancel_on_signal()
    view = StartView(console)
    # A signal cancels this task: everything that was started is left in good order, and the command ends well.
    with contextlib.suppress(asyncio.CancelledError):
        async with contextlib.AsyncExitStack() as entered:
            with view.shown():
                stack = await entered.enter_async_context(LocalStack(folder, log=sys.stdout, progress=view))
            _show_where(console, stack.info, stack.home, view.seconds)
            try:
                await asyncio.Event().wait()
            finally:
                console.print("stopping ...", style="dim")
    console.print("stopped", style="dim")


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
