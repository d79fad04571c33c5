"""The main job over HTTP and the bus, with every service as a process of its own."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from lorebus_kit.bus import BusProducer, Record
from lorebus_kit.keys import create_key
from lorebus_kit.run_ids import distill_run_id
from lorebus_ops.demo_runtime import rating_of, real_sessions
from tests.support.databases import ArrangedDatabase
from tests.support.gateways import Asking
from tests.support.services import Service, services

LESSONS: Any = json.loads((Path(__file__).parents[1] / "data" / "lessons.json").read_text())
ALL_SERVICES = ("gateway", "save", "distill", "recall_labeller", "prune")
PATIENCE_SECONDS = 60.0


class System:
    """All five services on a database and topics of the test's own."""

    def __init__(
        self,
        started: Sequence[Service],
        database: ArrangedDatabase,
        bus: BusProducer,
        client: httpx.AsyncClient,
    ) -> None:
        self._services = {service.name: service for service in started}
        self.url = self._services["gateway"].url
        self.database, self.bus, self.client = database, bus, client

    async def organization(self, organization_uuid: UUID) -> Asking:
        key = await create_key(self.database, organization_uuid, name="test")
        return Asking(self.url, self.database, organization_uuid, key, self.client)

    async def has_consumed(self, name: str, records: int) -> bool:
        """Whether this consumer has decided so many records, repeats included."""
        metrics = (await self.client.get(f"{self._services[name].url}/metrics")).text
        lines = [line for line in metrics.splitlines() if line.startswith("lorebus_consumed_total{")]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines) == records


@pytest.fixture
async def system(database_url: str, bootstrap_servers: str, topics: str) -> AsyncIterator[System]:
    async with AsyncExitStack() as entered:
        started = await entered.enter_async_context(
            services(
                *ALL_SERVICES,
                database_url=database_url,
                bootstrap_servers=bootstrap_servers,
                topic_prefix=topics,
            )
        )
        database = ArrangedDatabase(database_url, pool_size=2)
        entered.push_async_callback(database.dispose)
        bus = BusProducer(bootstrap_servers, topic_prefix=topics)
        await bus.start()
        entered.push_async_callback(bus.stop)
        client = await entered.enter_async_context(
            httpx.AsyncClient(base_url=started[0].url, trust_env=False, timeout=30.0)
        )
        yield System(started, database, bus, client)


async def run_until_done(asking: Asking, run_id: object) -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def is_done() -> bool:
        nonlocal found
        answer = await asking.ask("GET", f"/api/workflows/{run_id}")
        found = answer.json()
        return bool(found.get("is_terminal"))

    await asking.until(is_done, seconds=PATIENCE_SECONDS)
    return found


async def test_fifty_saves_of_one_sentence_at_once_are_one_row_and_forty_nine_confirmations(
    system: System,
) -> None:
    asking = await system.organization(UUID(int=1))
    session = await asking.session(await asking.config(), {"kind": "end_user", "ref": "ann"})

    answers = await asyncio.gather(
        *(asking.save(session, {"content": "Ask before you rebook."}) for _ in range(50))
    )

    assert {answer.status_code for answer in answers} == {202}
    runs = await asyncio.gather(*(run_until_done(asking, answer.json()["workflow_id"]) for answer in answers))
    assert sum(run["state_data"]["saved"] for run in runs) == 1
    assert sum(run["state_data"]["reinforced"] for run in runs) == 49
    rows = await asking.rows("SELECT reinforcement_count FROM lorebus.memories")
    assert [row["reinforcement_count"] for row in rows] == [49]


async def test_each_task_of_the_lessons_finds_what_is_relevant_to_it(system: System) -> None:
    asking = await system.organization(UUID(int=2))
    session = await asking.session(await asking.config(memory_strategy="pack"))
    entries = [{"text": lesson["text"]} for lesson in LESSONS["lessons"]]
    texts = {lesson["id"]: lesson["text"] for lesson in LESSONS["lessons"]}

    saved = await asking.save(session, {"entries": entries})
    run = await run_until_done(asking, saved.json()["workflow_id"])
    assert run["state_data"]["saved"] == 81

    recalls = []
    for task in LESSONS["tasks"]:
        answer = (await asking.load(session, cue=task["cue"], top_k=10)).json()
        found = answer["memory"].partition("\n\n")[2].split("\n---\n")
        relevant = [texts[lesson_id] for lesson_id in task["relevant"]]
        recalls.append(sum(text in found for text in relevant) / len(relevant))
    assert len(recalls) == 60
    assert sum(recalls) / len(recalls) >= 0.97


async def test_an_end_user_whom_nobody_could_name_has_no_memory(system: System) -> None:
    asking = await system.organization(UUID(int=3))
    config = await asking.config()
    await asking.remember(config, "a shared secret")
    await asking.remember(config, "what Ann told us", principal="ann")

    session = await asking.session(config, {"kind": "end_user", "ref": None}, load=True)
    saved = await asking.save(session, {"content": "I am nobody"})
    ended = await asking.ask(
        "POST",
        f"/api/app/agents/sessions/{session.uuid}/end",
        json={"outcome": "failed", "step_count": 9},
    )

    recall = session.answer["recall"]
    assert (recall["memory"], recall["count"], recall["recall_id"]) == ("", 0, None)
    assert recall["skipped_reason"] == "unidentified_end_user"
    run = await run_until_done(asking, saved.json()["workflow_id"])
    assert run["state_data"]["skipped_reason"] == "unidentified_end_user"
    distill = await run_until_done(asking, ended.json()["workflow_id"])
    assert distill["state_data"]["skipped_reason"] == "unidentified_end_user"
    rows = await asking.rows("SELECT principal_ref FROM lorebus.memories ORDER BY 1")
    assert [row["principal_ref"] for row in rows] == ["ann", None]


async def test_real_sessions_sent_twice_count_once(system: System) -> None:
    sessions = real_sessions()
    first = await system.organization(sessions[0].organization_uuid)
    second = await system.organization(sessions[-1].organization_uuid)
    askings = {asking.organization_uuid: asking for asking in (first, second)}
    for pair in dict.fromkeys((s.organization_uuid, s.agent_config_uuid) for s in sessions):
        await askings[pair[0]].ask("PUT", f"/api/app/agents/configs/{pair[1]}", json={})
    for session in sessions:
        body = {
            "agent_config_uuid": str(session.agent_config_uuid),
            "session_uuid": str(session.session_uuid),
            "caller": session.caller.model_dump(mode="json"),
            "task": session.task,
            "load": True,
        }
        answer = await askings[session.organization_uuid].ask("POST", "/api/app/agents/sessions", json=body)
        assert answer.status_code == 201
    ratings = [rating_of(index, session) for index, session in enumerate(sessions)]
    events = [*sessions, *(rating for rating in ratings if rating is not None)]
    records = [Record(e.topic.name, e.key(), e.model_dump_json().encode()) for e in events]

    async def told(times: int) -> dict[str, list[Any]]:
        assert set(await system.bus.publish_all(records, timeout_seconds=30.0)) == {None}
        await first.until(lambda: system.has_consumed("distill", times * 43), seconds=PATIENCE_SECONDS)
        read = times * len(events) + 43
        await first.until(lambda: system.has_consumed("recall_labeller", read), seconds=PATIENCE_SECONDS)
        for session in sessions:
            asking = askings[session.organization_uuid]
            distill = await run_until_done(asking, distill_run_id(session.session_uuid))
            if "save_workflow_id" in distill["state_data"]:
                await run_until_done(asking, distill["state_data"]["save_workflow_id"])
        return await _whole_memory(first)

    once = await told(1)
    again = await told(2)

    assert again == once
    labels = Counter(row["label"] for row in once["labels"])
    assert labels == {"failed": 25, "success": 18}
    assert len(once["memories"]) == 43


async def _whole_memory(asking: Asking) -> dict[str, list[Any]]:
    memories = await asking.rows(
        "SELECT id, text, importance, reinforcement_count, access_count, principal_ref"
        " FROM lorebus.memories ORDER BY id"
    )
    counters = await asking.rows(
        "SELECT agent_config_uuid, entry_count FROM lorebus.agent_configs ORDER BY 1"
    )
    labels = await asking.rows(
        "SELECT session_uuid, CASE WHEN quality_score >= 0.5 THEN 'success' WHEN quality_score IS NOT NULL THEN"
        " 'failed' ELSE outcome END AS label FROM lorebus.sessions ORDER BY 1"
    )
    runs = await asking.rows("SELECT id, state_name, state_data FROM lorebus.workflow_runs ORDER BY id")
    return {"memories": [*memories], "counters": [*counters], "labels": [*labels], "runs": [*runs]}
