"""One trace from a request to the commit of what it asked for, over the bus and through the outbox."""

import sys
from typing import Final
from uuid import uuid4

import httpx
import pytest

from lorebus_kit import tracing
from lorebus_kit.keys import ensure_local_key
from lorebus_kit.settings import ServiceSettings
from tests.integration.kit.collector import Seen, collecting
from tests.support.services import services, until

TRACE: Final = "0af7651916cd43dd8448eb211c80319c"
CALLER: Final = f"00-{TRACE}-b7ad6b7169203331-01"
SAVE: Final = "POST /api/agents/sessions/{session_ref}/memory-save"
TEXT: Final = "Ann prefers an aisle seat."


@pytest.mark.parametrize("accept", ["bus", "store"])
async def test_one_trace_goes_from_the_request_to_the_commit_of_its_save(
    database_url: str, bootstrap_servers: str, topics: str, accept: str
) -> None:
    key = await ensure_local_key(database_url, uuid4())
    with collecting() as collector:
        async with services(
            "gateway",
            "save",
            database_url=database_url,
            bootstrap_servers=bootstrap_servers,
            topic_prefix=topics,
            extra={"LOREBUS_ACCEPT": accept, "LOREBUS_TRACES_ENDPOINT": collector.url},
        ) as (gateway, _):
            token = await _saved(gateway.url, key)
            name = f"process {topics}memory.save-requested"
            await until(
                lambda: collector.named(name) and collector.named(SAVE), seconds=60, what="both spans"
            )

        (asked,), (processed,) = collector.named(SAVE), collector.named(name)
        sent = b"".join(collector.raw)
    assert (asked.service, processed.service) == ("lorebus-gateway", "lorebus-save")
    assert (asked.trace_id, processed.trace_id) == (TRACE, TRACE)
    assert (asked.parent_id, processed.parent_id) == ("b7ad6b7169203331", asked.span_id)
    _check_attributes(asked, processed, f"{topics}memory.save-requested")
    assert [secret for secret in (TEXT, token, key, "ann-4711") if secret.encode() in sent] == []


def _check_attributes(asked: Seen, processed: Seen, topic: str) -> None:
    assert asked.attributes == {
        "http.request.method": "POST",
        "http.route": "/api/agents/sessions/{session_ref}/memory-save",
        "http.response.status_code": "202",
    }
    assert processed.attributes.pop("messaging.destination.partition.id") in {"0", "1"}
    assert processed.attributes == {
        "messaging.system": "kafka",
        "messaging.destination.name": topic,
        "messaging.consumer.group.name": "lorebus.save",
        "lorebus.outcome": "Applied",
    }


async def _saved(gateway: str, key: str) -> str:
    """Save a text within the caller's trace; the session's token."""
    config, session = uuid4(), uuid4()
    async with httpx.AsyncClient(base_url=gateway, headers={"authorization": f"Bearer {key}"}) as client:
        await client.put(f"/api/app/agents/configs/{config}", json={})
        opened = await client.post(
            "/api/app/agents/sessions",
            json={
                "agent_config_uuid": str(config),
                "session_uuid": str(session),
                "caller": {"kind": "end_user", "ref": "ann-4711"},
            },
        )
        token: str = opened.json()["token"]
        answer = await client.post(
            f"/api/agents/sessions/{session}/memory-save",
            headers={"authorization": f"Agent {token}", "traceparent": CALLER},
            json={"content": TEXT},
        )
    assert answer.status_code == 202
    return token


def test_nothing_is_traced_unless_it_is_asked_for() -> None:
    with tracing.request("GET /", {}, asked_in=None):
        assert tracing.traceparent() is None
    assert tracing.headers(None) == ()


@pytest.mark.parametrize("told", ["", "nonsense", "00-" + "0" * 32 + "-b7ad6b7169203331-01", "ü"])
def test_a_trace_that_cannot_be_read_is_none(told: str) -> None:
    with tracing.request("GET /", {}, asked_in=told):
        assert tracing.traceparent() is None


def test_a_trace_that_a_caller_began_goes_on_where_we_do_not_trace() -> None:
    with tracing.request("GET /", {}, asked_in=CALLER):
        assert tracing.headers(tracing.traceparent()) == (("traceparent", CALLER.encode()),)


def test_traces_without_their_extra_end_the_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    settings = ServiceSettings.model_validate(
        {
            "database_url": "postgresql://nobody@127.0.0.1:9/none",
            "bootstrap_servers": "127.0.0.1:9",
            "traces_endpoint": "http://127.0.0.1:9",
        }
    )

    with pytest.raises(SystemExit) as ended, tracing.traced_process("save", settings):
        pass

    assert ended.value.code == 2
    assert "LOREBUS_TRACES_ENDPOINT" in capsys.readouterr().err
