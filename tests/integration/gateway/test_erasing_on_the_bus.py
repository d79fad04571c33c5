"""Erasing with every consumer running: what is still on the bus, or comes again, brings nothing back."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from lorebus_contracts.topics import (
    DISTILL_GROUP,
    LABELS_GROUP,
    RECALL_RECORDED,
    SAVE_GROUP,
    SAVE_REQUESTED,
    SESSION_ENDED,
)
from lorebus_kit.run_ids import distill_run_id
from tests.support.erased import traces
from tests.support.events import Scope, end_user, ended, recalled, save
from tests.support.gateways import Asking, running_gateway
from tests.support.services import services
from tests.support.wire import Wire

BOB = "bob-7f3a"


@pytest.fixture
async def system(
    database_url: str, bootstrap_servers: str, topics: str
) -> AsyncIterator[tuple[Asking, Wire]]:
    """A gateway that accepts on the bus, and the consumers."""
    async with (
        running_gateway(
            database_url, accept="bus", bootstrap_servers=bootstrap_servers, topic_prefix=topics
        ) as gateway,
        services(
            "save",
            "distill",
            "recall_labeller",
            database_url=database_url,
            bootstrap_servers=bootstrap_servers,
            topic_prefix=topics,
        ),
        Wire(bootstrap_servers, topics) as wire,
    ):
        yield gateway, wire


async def ended_run(gateway: Asking, run_id: object) -> str:
    """How the run ended."""

    async def has_ended() -> bool:
        answer = await gateway.ask("GET", f"/api/workflows/{run_id}")
        return bool(answer.status_code == 200 and answer.json()["is_terminal"])

    await gateway.until(has_ended)
    return str(
        (await gateway.ask("GET", f"/api/workflows/{run_id}")).json()["state_data"].get("skipped_reason")
    )


async def test_what_comes_late_or_again_brings_nothing_of_an_erased_person_back(
    system: tuple[Asking, Wire],
) -> None:
    gateway, wire = system
    config = await gateway.config()
    scope = Scope(gateway.organization_uuid, config)
    session = await gateway.session(config, {"kind": "end_user", "ref": BOB}, task="bob wants tea")
    saved = await gateway.save(session, {"content": "bob likes tea"})
    await ended_run(gateway, saved.json()["workflow_id"])
    assert (await gateway.load(session)).json()["count"] == 1
    trace = [{"tool": "kettle", "output": "bob's tea is ready"}]
    end = {"outcome": "success", "step_count": 3, "trace": trace}
    await gateway.ask("POST", f"/api/app/agents/sessions/{session.uuid}/end", json=end)
    await ended_run(gateway, distill_run_id(session.uuid))

    async def is_recorded() -> bool:
        return len(await gateway.rows("SELECT 1 FROM lorebus.recall_entries")) == 1

    await gateway.until(is_recorded)
    receipt = await gateway.ask("POST", "/api/app/agents/memory/erase", json={"principal_ref": BOB})
    counts = receipt.json()["counts"]
    assert (counts["recalls"], counts["recall_entries"], counts["sessions"]) == (1, 1, 1)
    assert counts["entries"] >= 1
    assert await traces(gateway.database, BOB, "bob") == []

    before = datetime.now(UTC) - timedelta(minutes=1)
    late = [
        event.model_copy(update={"occurred_at": before})
        for event in (
            save(scope, "bob likes cake", caller=end_user(BOB)),
            ended(scope, caller=end_user(BOB), task="bob wants cake", step_count=5),
            recalled(scope, [], caller=end_user(BOB)),
        )
    ]
    await wire.send(*late)
    for topic in (SAVE_REQUESTED, SESSION_ENDED, RECALL_RECORDED):
        for record in await wire.read(topic.name):
            await wire.send_raw(topic.name, record.value, key=record.key, headers=record.headers)
    await wire.settled(SAVE_GROUP, SAVE_REQUESTED)
    await wire.settled(DISTILL_GROUP, SESSION_ENDED)
    await wire.settled(LABELS_GROUP, SESSION_ENDED, RECALL_RECORDED)

    assert await traces(gateway.database, BOB, "bob") == []
    assert await ended_run(gateway, late[0].event_id) == "erased"

    again = await gateway.save(session, {"content": "bob is back"})
    assert await ended_run(gateway, again.json()["workflow_id"]) == "None"
    assert (await gateway.load(session)).json()["memory"] == "bob is back"
