"""`lorebus demo`: the main job, shown on real sessions.

Sessions of two organizations are launched, end, are distilled, and the next session of a user who came back gets what
was learnt. Everything on the screen was asked for over HTTP.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live

from lorebus_contracts.events import SessionEnded
from lorebus_ops.answers import note, say_json
from lorebus_ops.demo_ledger import Ledger, SessionStory
from lorebus_ops.demo_next import next_session
from lorebus_ops.demo_report import demo_report
from lorebus_ops.demo_runtime import DemoRuntime, rating_of, real_sessions
from lorebus_ops.demo_screen import board, show_next_session
from lorebus_ops.errors import EXIT_FAILED, StackError
from lorebus_ops.home import Home, LocalInfo
from lorebus_ops.stack import LocalStack
from lorebus_ops.up import StartView

ALL_KNOWN_SECONDS: Final = 90.0
WATCH_SECONDS: Final = 0.5


def demo(folder: Path, *, as_json: bool = False) -> int:
    """Show the main job on the running stack of this folder, or on one that is started for it; the exit code.

    The last line on standard output is one JSON object with the totals. With `as_json` one object with all that is
    shown is everything there, and whoever looks at a terminal sees the rest on standard error.
    """
    console = Console(highlight=False)
    if as_json:
        console = Console(highlight=False, stderr=True, quiet=not sys.stderr.isatty())
    try:
        asyncio.run(_demo(folder, console, as_json=as_json))
    except StackError as error:
        note(str(error))
        return EXIT_FAILED
    return 0


async def _demo(folder: Path, console: Console, *, as_json: bool) -> None:
    async with _stack(folder, console) as info, DemoRuntime(info) as runtime:
        sessions = real_sessions()
        ledger = Ledger(runtime)
        with Live(board(ledger, len(sessions)), console=console, refresh_per_second=8) as live:
            watching = asyncio.create_task(_watch(ledger, live, len(sessions)))
            try:
                await _play(runtime, ledger, sessions)
                await ledger.until_complete(seconds=ALL_KNOWN_SECONDS)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
            live.update(board(ledger, len(sessions)))
        console.print()
        following = await next_session(runtime, ledger)
        show_next_session(console, following)
        if as_json:
            say_json(demo_report(ledger, following))
        else:
            console.print_json(data=ledger.totals(), indent=None, highlight=False)


@asynccontextmanager
async def _stack(folder: Path, console: Console) -> AsyncIterator[LocalInfo]:
    running = Home(folder).running()
    if running is not None:
        console.print(f"using the stack that runs at {running.gateway_url}", style="dim")
        yield running
        return
    view = StartView(console)
    async with AsyncExitStack() as entered:
        with view.shown():
            stack = await entered.enter_async_context(LocalStack(folder, progress=view))
        console.print(f"[bold green]Lorebus is up[/] after {view.seconds:.1f} s at {stack.info.gateway_url}")
        yield stack.info


async def _play(runtime: DemoRuntime, ledger: Ledger, sessions: Sequence[SessionEnded]) -> None:
    """All sessions in the order in which they happened, as their runtime would have told them."""
    await runtime.prepare(sessions)
    for index, session in enumerate(sessions):
        # Whoever comes back comes back later: what was learnt from the visit before is there by then.
        await ledger.until_learnt(_earlier(ledger, session), seconds=ALL_KNOWN_SECONDS)
        launch = await runtime.launch(session)
        rating = rating_of(index, session)
        story = SessionStory(session, launch, rating, asyncio.get_running_loop().time())
        await runtime.tell(session)
        if rating is not None:
            await runtime.tell(rating)
        ledger.stories.append(story)


def _earlier(ledger: Ledger, session: SessionEnded) -> list[SessionStory]:
    return [
        story
        for story in ledger.stories
        if session.caller.principal_ref() is not None and story.session.caller == session.caller
    ]


async def _watch(ledger: Ledger, live: Live, expected: int) -> None:
    while True:
        await ledger.refresh()
        live.update(board(ledger, expected))
        await asyncio.sleep(WATCH_SECONDS)
