"""A process that is told to stop ends in time, whether it wants to or not."""

import signal
import subprocess
import sys
import textwrap

import pytest

PROCESS = """
    import asyncio

    from lorebus_kit.logs import configure_logs
    from lorebus_kit.stopping import on_stop_signal

    async def run():
        told = asyncio.Event()
        on_stop_signal(lambda number: (print(number, flush=True), told.set()), within_seconds={within})
        print("ready", flush=True)
        await told.wait()
        await asyncio.sleep({takes})
        print("ended by itself", flush=True)

    configure_logs("test")
    asyncio.run(run())
"""


def said_after(number: signal.Signals, *, within: float, takes: float) -> str:
    """What such a process says once it got the signal; it ends with exit code 0."""
    code = textwrap.dedent(PROCESS.format(within=within, takes=takes))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        said = process.stdout.read()
        assert process.wait() == 0
    return said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_that_stops_in_time_ends_by_itself(number: signal.Signals) -> None:
    assert said_after(number, within=60.0, takes=0.0) == f"{int(number)}\nended by itself\n"


def test_a_process_that_cannot_stop_is_ended_and_says_so() -> None:
    said = said_after(signal.SIGTERM, within=0.2, takes=3600.0)

    assert "ended in the middle of stopping" in said
    assert "ended by itself" not in said
