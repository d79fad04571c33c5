"""A trace that goes on in what is done later: a distill by its worker, and a recall recorded behind its answer."""

import json
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID, uuid4

import httpx

from lorebus_kit.keys import ensure_local_key
from lorebus_kit.run_ids import distill_run_id
from tests.integration.kit.collector import Collector, Seen, collecting
from tests.support.model_server import lessons, model_server, says
from tests.support.services import services, until

TRACE: Final = "0af7651916cd43dd8448eb211c80319c"
CALLER: Final = f"00-{TRACE}-b7ad6b7169203331-01"
END: Final = "POST /api/app/agents/sessions/{session_uuid}/end"
LOAD: Final = "POST /api/agents/sessions/{session_ref}/memory-load"
LESSON: Final = "Check the balance before you pay."
TASK: Final = "pay the bill of ann-4711"


class Runtime:
    """A session runtime whose requests are part of a trace."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._key = key
        self.config, self.session = uuid4(), uuid4()
        self.token = ""

    async def ask(
        self, method: str, path: str, body: object, *, token: str | None = None, traced: bool = False
    ) -> Mapping[str, Any]:
        headers = {"authorization": f"Agent {token}" if token else f"Bearer {self._key}"}
        headers |= {"traceparent": CALLER} if traced else {}
        async with httpx.AsyncClient(base_url=self._url, headers=headers) as client:
            answer = await client.request(method, path, json=body)
        assert answer.is_success, answer.text
        told: Mapping[str, Any] = answer.json()
        return told

    async def open(self, *, model_profile: str | None = None) -> None:
        """Make config and session known."""
        await self.ask("PUT", "/api/app/organization", {"model_profile": model_profile})
        await self.ask("PUT", f"/api/app/agents/configs/{self.config}", {})
        body = {
            "agent_config_uuid": str(self.config),
            "session_uuid": str(self.session),
            "caller": {"kind": "end_user", "ref": "ann-4711"},
            "task": TASK,
        }
        self.token = (await self.ask("POST", "/api/app/agents/sessions", body))["token"]

    async def end(self) -> None:
        """End the session, within the caller's trace."""
        call = {"tool": "pay", "input": {"pin": "4711"}, "output": "Error: too low", "is_error": True}
        body = {"outcome": "failed", "step_count": 3, "trace": [call]}
        await self.ask("POST", f"/api/app/agents/sessions/{self.session}/end", body, traced=True)

    async def load(self) -> UUID:
        """Load, within the caller's trace; the recall's id."""
        path = f"/api/agents/sessions/{self.session}/memory-load"
        return UUID((await self.ask("POST", path, {}, token=self.token, traced=True))["recall_id"])


def only(collector: Collector, name: str) -> Seen:
    (found,) = collector.named(name)
    return found


async def test_one_trace_goes_from_a_sessions_end_over_its_distill_to_the_commit_of_its_lesson(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    key = await ensure_local_key(database_url, uuid4())
    saved = f"process {topics}memory.save-requested"
    async with model_server(otherwise=says(lessons(LESSON))) as model:
        with collecting() as collector:
            async with services(
                *("gateway", "distill", "save"),
                database_url=database_url,
                bootstrap_servers=bootstrap_servers,
                topic_prefix=topics,
                extra={
                    "LOREBUS_ACCEPT": "bus",
                    "LOREBUS_TRACES_ENDPOINT": collector.url,
                    "LOREBUS_MODELS": json.dumps({"m": model.profile()}),
                },
            ) as (gateway, _, _):
                runtime = Runtime(gateway.url, key)
                await runtime.open(model_profile="m")
                await runtime.end()
                names = (END, f"process {topics}session.ended", "agents.memory-distill", saved)
                await until(lambda: all(map(collector.named, names)), seconds=60, what="all spans")
            asked, processed, distilled, committed = (only(collector, name) for name in names)
            called = only(collector, "chat tiny-instruct")
            sent = b"".join(collector.raw)

    spans = (asked, processed, distilled, called, committed)
    assert {span.trace_id for span in spans} == {TRACE}
    assert [span.service for span in spans] == [
        f"lorebus-{name}" for name in ("gateway", "distill", "distill", "distill", "save")
    ]
    assert (asked.parent_id, processed.parent_id) == ("b7ad6b7169203331", asked.span_id)
    assert (distilled.parent_id, called.parent_id) == (processed.span_id, distilled.span_id)
    assert committed.parent_id == distilled.span_id
    assert committed.attributes["lorebus.outcome"] == "Applied"
    _check_attributes(distilled, called, runtime.session)
    assert [text for text in (LESSON, TASK, "ann-4711", "too low", key) if text.encode() in sent] == []


def _check_attributes(distilled: Seen, called: Seen, session: UUID) -> None:
    assert distilled.attributes.pop("lorebus.workflow_id") == str(distill_run_id(session))
    assert distilled.attributes == {
        "lorebus.attempt": "1",
        "lorebus.outcome": "finished",
        "lorebus.lessons": "1",
        "gen_ai.usage.input_tokens": "700",
        "gen_ai.usage.output_tokens": "40",
    }
    assert called.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "tiny-instruct",
        "lorebus.profile": "m",
        "lorebus.outcome": "answered",
    }


async def test_a_loads_trace_goes_on_to_the_recording_of_its_recall(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    key = await ensure_local_key(database_url, uuid4())
    with collecting() as collector:
        async with services(
            *("gateway", "recall_labeller"),
            database_url=database_url,
            bootstrap_servers=bootstrap_servers,
            topic_prefix=topics,
            extra={"LOREBUS_ACCEPT": "store", "LOREBUS_TRACES_ENDPOINT": collector.url},
        ) as (gateway, _):
            runtime = Runtime(gateway.url, key)
            await runtime.open()
            await runtime.load()
            names = (LOAD, f"process {topics}recall.recorded")
            await until(lambda: all(map(collector.named, names)), seconds=60, what="both spans")
        asked, recorded = (only(collector, name) for name in names)
        sent = b"".join(collector.raw)

    assert (asked.trace_id, recorded.trace_id) == (TRACE, TRACE)
    assert (asked.service, recorded.service) == ("lorebus-gateway", "lorebus-recall-labeller")
    assert recorded.parent_id == asked.span_id
    assert recorded.attributes["lorebus.outcome"] == "Applied"
    assert [text for text in (TASK, "ann-4711", runtime.token) if text.encode() in sent] == []
