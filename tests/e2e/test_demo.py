"""`lorebus demo` as a newcomer runs it, undisturbed and with its services killed under it."""

import asyncio
import contextlib
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from tests.support.outputs import OUTPUTS

SERVICES: Final = ("gateway", "save", "distill", "recall_labeller", "prune")
TOTALS: Final = {
    "sessions": 43,
    "distilled": 33,
    "skipped": {"no_lessons": 10},
    "saved": 43,
    "reinforced": 2,
    "recalls": 43,
    "labels": {"failed": 25, "success": 18},
}


@asynccontextmanager
async def demo(home: Path, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOREBUS_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lorebus_ops", "demo", *words),
        env=environment | {"LOREBUS_HOME": str(home)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def finished(process: asyncio.subprocess.Process) -> tuple[str, dict[str, Any]]:
    output, _ = await process.communicate()
    text = output.decode()
    assert process.returncode == 0, text
    totals: dict[str, Any] = json.loads(text.splitlines()[-1])
    return text, totals


def left_over(home: Path) -> list[str]:
    """Processes that still have to do with this folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(home) in " ".join(process.cmdline()) or process.environ().get("LOREBUS_HOME") == str(home):
                found.append(process.name())
    return found


async def service_process(
    demo_process: asyncio.subprocess.Process, name: str, *, other_than: int = 0
) -> psutil.Process:
    async with asyncio.timeout(60):
        while True:
            for child in psutil.Process(demo_process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if child.cmdline()[-1:] == [f"lorebus_{name}"] and child.pid != other_than:
                        return child
            await asyncio.sleep(0.05)


async def lines_until(process: asyncio.subprocess.Process, text: str) -> str:
    assert process.stdout is not None
    seen = ""
    while text not in seen:
        line = await process.stdout.readline()
        assert line, seen
        seen += line.decode()
    return seen


@pytest.mark.timeout(240)
async def test_the_demo_shows_the_main_job_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with demo(tmp_path / "home") as process:
        text, totals = await finished(process)

    assert totals == TOTALS
    assert "Recalled memory (ranked for this task)" in text
    assert "relevance" in text
    assert left_over(tmp_path / "home") == []


@pytest.mark.timeout(300)
async def test_killing_each_service_during_the_demo_changes_no_total(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with demo(home) as process:
        await lines_until(process, "Lorebus is up")
        for name in SERVICES:
            victim = await service_process(process, name)
            victim.kill()
            await service_process(process, name, other_than=victim.pid)
        _, totals = await finished(process)

    assert totals == TOTALS
    log = (home / "log" / "lorebus.log").read_text()
    OUTPUTS.search("the log of the demo's system", log)
    assert log.count("starting it again") == 5


@pytest.mark.timeout(240)
async def test_with_json_the_demo_says_nothing_but_one_object(tmp_path: Path) -> None:
    async with demo(tmp_path / "home", "--json") as process:
        output, _ = await process.communicate()

    told = json.loads(output)
    loads = told["next_session"]["loads"]
    assert process.returncode == 0
    assert told["totals"] == TOTALS
    assert sum(one["saved"] for one in told["sessions"]) == 43
    assert Counter(one["label"] for one in told["sessions"]) == {"failed": 25, "success": 18}
    assert list(loads) == ["last_k", "importance", "full", "pack"]
    assert loads["pack"]["memory"].startswith("## Recalled memory (ranked for this task)")
    assert loads["full"]["count"] == loads["full"]["memory"].count("\n---\n") + 1
    assert b"lrb_" not in output
