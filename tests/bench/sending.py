"""Runs the load generator as a process of its own and gives back what it measured."""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.bench.generator import Job, Sent
from tests.bench.http_wire import Address
from tests.bench.places import ROOT


async def send_all(
    address: Address,
    requests: Sequence[bytes],
    *,
    callers: int,
    seconds: float | None = None,
    per_second: float | None = None,
) -> Sent:
    """Each request once, or over and over for `seconds`; at full speed, or so many a second.

    Raises:
        RuntimeError: the generator failed; the text is what it said.
    """
    texts = [request.decode("ascii") for request in requests]
    job = Job(address.host, address.port, callers, texts, seconds, per_second)
    with tempfile.TemporaryDirectory(prefix="lorebus-bench-") as folder:
        job_path, result_path = Path(folder) / "job.json", Path(folder) / "result.json"
        job_path.write_text(json.dumps(asdict(job)), "ascii")
        await run_module("tests.bench.generator", str(job_path), str(result_path))
        return Sent(**json.loads(result_path.read_text()))


async def run_module(module: str, *words: str, python: str = sys.executable) -> str:
    """Run a module from the repository's root; what it printed.

    Raises:
        RuntimeError: it ended with another code than 0; the text is what it said.
    """
    process = await asyncio.create_subprocess_exec(
        *(python, "-m", module, *words),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ""},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{module} ended with {process.returncode}: {err.decode()[-2000:]}")
    return out.decode()
