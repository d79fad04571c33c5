"""`lorebus bench` against a gateway and consumers that run."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from lorebus_kit.keys import ensure_local_key
from tests.integration.ops.test_commands import fetch
from tests.support.commands import Shell
from tests.support.databases import owner_of
from tests.support.services import services

COUNTS = "SELECT count(*) FROM lorebus.memories"


@pytest.fixture
async def desk(
    database_url: str, bootstrap_servers: str, topics: str, tmp_path: Path
) -> AsyncIterator[Shell]:
    key = await ensure_local_key(database_url, uuid4())
    async with services(
        *("gateway", "save", "prune"),
        database_url=database_url,
        bootstrap_servers=bootstrap_servers,
        topic_prefix=topics,
    ) as (gateway, _, _):
        yield Shell({"LOREBUS_HOME": str(tmp_path), "LOREBUS_URL": gateway.url, "LOREBUS_API_KEY": key})


async def test_a_bench_measures_saves_and_loads_and_leaves_no_entry(desk: Shell, database_url: str) -> None:
    answer = await desk.lorebus("bench", "--callers", "2", "--seconds", "2", "--json")
    shown = await desk.lorebus("bench", "--callers", "1", "--seconds", "1")

    told = answer.json
    assert (answer.code, answer.errors, told["failed"]) == (0, "", {})
    assert told["saves_accepted"]["count"] > 0
    assert told["save_to_visible"]["count"] > 0
    assert {"last_k", "importance"} <= set(told["loads"])
    assert all(load["p50_ms"] <= load["p99_ms"] for load in told["loads"].values())
    # A hundred entries of each session, what was measured, and the last one of each.
    assert told["entries_removed"] >= 300 + told["saves_accepted"]["count"] + 3
    assert (shown.code, shown.errors) == (0, "")
    assert shown.output.startswith("1 callers for ")
    assert "save to visible" in shown.output
    assert await fetch(owner_of(database_url), COUNTS) == [(0,)]


async def test_another_machine_is_loaded_only_by_somebody_who_is_sure(tmp_path: Path) -> None:
    known = Shell({"LOREBUS_HOME": str(tmp_path), "LOREBUS_API_KEY": "lrb_of_nobody"})

    refused = await known.lorebus("bench", "--url", "http://lorebus.invalid:9", "--json")
    sure = await known.lorebus("bench", "--url", "http://lorebus.invalid:9", "--json", "--yes")

    assert (refused.code, refused.output) == (1, "")
    assert refused.errors == (
        "lorebus: http://lorebus.invalid:9 is another machine, which others may be using: give --yes to load it\n"
    )
    assert (sure.code, sure.output) == (3, "")
    assert sure.errors.startswith("lorebus: the gateway at http://lorebus.invalid:9 does not answer")


async def test_a_key_that_may_not_do_it_is_refused_before_anything_is_asked_for(
    desk: Shell, database_url: str
) -> None:
    wrong = await desk.lorebus("bench", "--seconds", "1", LOREBUS_API_KEY="lrb_wrong")

    assert (wrong.code, wrong.output) == (1, "")
    assert wrong.errors.startswith("lorebus: 401 ")
    assert await fetch(owner_of(database_url), "SELECT count(*) FROM lorebus.agent_configs") == [(0,)]
