"""Other memories for agents, where they are installed in an environment of their own (`make bench-peers`).

Each peer is a program that runs in that environment alone and prints its figures as JSON. One that is not there, or
cannot be run, says so in the table, and how it is got.
"""

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from lorebus_ops.home import LocalInfo
from tests.bench.places import ROOT
from tests.bench.plan import Plan
from tests.bench.sending import run_module

PYTHON: Final = ROOT / ".cache" / "bench-peers" / "bin" / "python"
_PIP: Final = ".cache/bench-peers/bin/pip install"
_UNTRIED: Final = "nothing here measures it yet"


class Peer(NamedTuple):
    """A peer: the module that measures it, None where there is none; and how it is installed."""

    name: str
    module: str | None
    installing: str


PEERS: Final = (
    Peer("langgraph", "tests.bench.peer_langgraph", "`make bench-peers` does it"),
    Peer("mem0", "tests.bench.peer_mem0", "`make bench-peers` does it"),
    Peer("hindsight", None, f"`{_PIP} hindsight-api`, a server that needs a model; {_UNTRIED}"),
    Peer(
        "redis agent-memory-server",
        None,
        f"`pip install agent-memory-server` (Python 3.12), a server that needs Redis and a model; {_UNTRIED}",
    ),
)


async def measure(info: LocalInfo, plan: Plan, *, python: Path = PYTHON) -> dict[str, dict[str, Any]]:
    """What each peer's program printed, or why there is nothing."""
    there = is_installed(python)
    return {peer.name: await _measured(peer, info, plan, python if there else None) for peer in PEERS}


def is_installed(python: Path = PYTHON) -> bool:
    """Whether the peers' environment is there."""
    return python.exists()


async def _measured(peer: Peer, info: LocalInfo, plan: Plan, python: Path | None) -> dict[str, Any]:
    if peer.module is None or python is None:
        return {"installed": False, "reason": f"not installed: {peer.installing}"}
    words = (info.migrations_database_url, str(plan.memories), str(plan.repetitions))
    try:
        told: dict[str, Any] = json.loads(await run_module(peer.module, *words, python=str(python)))
    except RuntimeError as error:
        return {"installed": False, "reason": f"it did not run: {str(error).splitlines()[-1]}"}
    return {"installed": True, **told}
