"""`lorebus memory` and `lorebus tail` through a real gateway."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from lorebus_contracts.events import ChangeKind, MemoryChanged
from lorebus_ops.feed_client import FeedReader
from tests.support.commands import Shell
from tests.support.gateways import Asking, running_gateway
from tests.support.wire import Wire


@dataclass(frozen=True, slots=True)
class Desk:
    """A gateway, and a shell that has its organization's key."""

    gateway: Asking
    shell: Shell
    wire: Wire


@pytest.fixture
async def desk(database_url: str, bootstrap_servers: str, topics: str, tmp_path: Path) -> AsyncIterator[Desk]:
    async with (
        running_gateway(
            database_url, accept="bus", bootstrap_servers=bootstrap_servers, topic_prefix=topics
        ) as gateway,
        Wire(bootstrap_servers, topics) as wire,
    ):
        known = {
            "LOREBUS_HOME": str(tmp_path),
            "LOREBUS_URL": gateway.url,
            "LOREBUS_API_KEY": gateway.api_key,
        }
        yield Desk(gateway, Shell(known), wire)


def change(organization: UUID, config: UUID) -> MemoryChanged:
    return MemoryChanged(
        event_id=uuid4(),
        occurred_at=datetime.now(UTC),
        organization_uuid=organization,
        agent_config_uuid=config,
        kind=ChangeKind.SAVED,
        ids=(uuid4(),),
        count=1,
    )


async def test_memory_is_listed_exported_imported_elsewhere_and_erased(desk: Desk, tmp_path: Path) -> None:
    here, there = await desk.gateway.config(), await desk.gateway.config()
    await desk.gateway.remember(here, "a", "b", "c", principal="ann")
    await desk.gateway.remember(here, "d")
    file = tmp_path / "memory.jsonl"

    listed = await desk.shell.lorebus(
        *("memory", "list", "--agent-config", str(here), "--per-page", "2", "--every", "--json")
    )
    exported = await desk.shell.lorebus(
        "memory", "export", "--agent-config", str(here), "--output", str(file), "--json"
    )
    imported = await desk.shell.lorebus("memory", "import", str(file), "--agent-config", str(there), "--json")
    piped = await desk.shell.lorebus("memory", "export", "--agent-config", str(there))
    unsure = await desk.shell.lorebus("memory", "erase", "--principal", "ann", typed="n\n")
    erased = await desk.shell.lorebus("memory", "erase", "--principal", "ann", "--yes", "--json")
    left = await desk.shell.lorebus("memory", "list", "--agent-config", str(there), "--json")

    assert {entry["text"] for entry in listed.json["entries"]} == {"a", "b", "c", "d"}
    assert exported.json == {"file": str(file), "entries": 4}
    assert (imported.json["imported"], imported.json["present"]) == (4, 0)
    assert piped.output == file.read_text()
    assert unsure.code == 1
    assert (erased.code, erased.json["counts"]["entries"]) == (0, 6)
    assert [entry["text"] for entry in left.json["entries"]] == ["d"]


async def test_what_the_gateway_refuses_is_exit_code_1_with_its_reasons(desk: Desk, tmp_path: Path) -> None:
    config = await desk.gateway.config()
    cut = tmp_path / "cut.jsonl"
    cut.write_text('{"format":"lorebus.memory","version":1}\n')

    unknown = await desk.shell.lorebus("memory", "list", "--agent-config", str(uuid4()))
    faulty = await desk.shell.lorebus("memory", "import", str(cut), "--agent-config", str(config))
    no_key = await desk.shell.lorebus(
        "memory", "list", "--agent-config", str(config), LOREBUS_API_KEY="lrb_wrong"
    )

    assert (unknown.code, unknown.output) == (1, "")
    assert unknown.errors.startswith("lorebus: 404 Not found: ")
    assert (faulty.code, "has no end" in faulty.errors) == (1, True)
    assert (no_key.code, no_key.errors.startswith("lorebus: 401 ")) == (1, True)


async def test_a_gateway_that_is_away_is_exit_code_3(tmp_path: Path) -> None:
    away = Shell({"LOREBUS_HOME": str(tmp_path), "LOREBUS_URL": "http://127.0.0.1:9", "LOREBUS_API_KEY": "k"})

    answer = await away.lorebus("memory", "list", "--agent-config", str(uuid4()))

    assert (answer.code, answer.output) == (3, "")
    assert answer.errors.startswith("lorebus: the gateway at http://127.0.0.1:9 does not answer")


async def test_tail_tells_changes_as_lines_and_goes_on_behind_the_last_one(desk: Desk) -> None:
    organization, config = desk.gateway.organization_uuid, await desk.gateway.config()
    told = [change(organization, config) for _ in range(3)]
    await desk.wire.send(told[0])
    first = await desk.shell.lorebus("tail", "--since", "p0:0,p1:0", "--count", "1", "--json")
    last_id = json.loads(first.output.splitlines()[-1])["id"]
    await desk.wire.send(told[1])
    await desk.wire.send(change(organization, uuid4()))
    await desk.wire.send(told[2])

    second = await desk.shell.lorebus(
        *("tail", "--since", last_id, "--agent-config", str(config), "--count", "2", "--json")
    )

    changes = [json.loads(line) for line in second.output.splitlines()]
    ids = [one["data"]["ids"] for one in changes if one["event"] == "memory.changed"]
    assert first.code == second.code == 0
    assert ids == [[str(told[1].ids[0])], [str(told[2].ids[0])]]


def test_a_reader_goes_on_behind_whole_events_and_heartbeats_only() -> None:
    reader = FeedReader(None)
    lines = ["event: memory.changed", "id: 0-1", 'data: {"a": 1}', "", ": heartbeat", "id: 0-2", ""]

    events = [event for event in map(reader.take, lines) if event is not None]
    for line in ("event: memory.changed", "id: 0-3", 'data: {"a"'):
        reader.take(line)
    reader.begin()

    assert [(event.id, event.name, event.data) for event in events] == [("0-1", "memory.changed", {"a": 1})]
    assert reader.last_id == "0-2"
