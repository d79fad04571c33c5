"""Peers that are not there."""

from pathlib import Path

from lorebus_ops.home import LocalInfo
from tests.bench.peers import measure
from tests.bench.plan import plan_of

_NOWHERE = LocalInfo(
    gateway_url="",
    api_key="",
    organization_uuid="",
    bootstrap_servers="",
    database_url="",
    migrations_database_url="",
    services={},
    pid=0,
)


async def test_each_peer_that_is_not_installed_says_how_it_is(tmp_path: Path) -> None:
    told = await measure(_NOWHERE, plan_of([]), python=tmp_path / "python")
    assert {name: one["reason"].split("`")[1] for name, one in told.items()} == {
        "langgraph": "make bench-peers",
        "mem0": "make bench-peers",
        "hindsight": ".cache/bench-peers/bin/pip install hindsight-api",
        "redis agent-memory-server": "pip install agent-memory-server",
    }
    assert not any(one["installed"] for one in told.values())
