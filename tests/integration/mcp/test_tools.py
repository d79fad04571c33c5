"""Each tool at its work, on every way to it: HTTP in both eras of the protocol, and stdio."""

import asyncio
import json
from uuid import UUID, uuid4

from lorebus_contracts.mcp_tools import TOOLS
from lorebus_contracts.workflows import WorkflowType
from tests.support.finished_runs import finish
from tests.support.gateways import Asking
from tests.support.mcp_clients import Connect, ask, content_of, refusal, text_of

READING = {
    "recall",
    "whoami",
    "list_workflow_types",
    "get_workflow_schema",
    "get_workflow_status",
    "watch_workflow",
    "get_workflow_history",
    "list_workflows",
}


async def test_every_tool_is_listed_with_what_an_agent_chooses_by(gateway: Asking, connect: Connect) -> None:
    async with connect(gateway.url, key=gateway.api_key) as client:
        tools = (await client.list_tools()).tools
        instructions = client.instructions

    assert instructions is not None
    assert instructions.startswith("Lorebus is the memory of a fleet of AI agents.")
    assert [tool.name for tool in tools] == list(TOOLS)
    for tool in tools:
        assert tool.annotations is not None
        assert tool.description is not None
        assert tool.title is not None
        assert tool.annotations.read_only_hint is (tool.name in READING)
        assert tool.annotations.destructive_hint is (tool.name == "start_workflow")
        assert tool.annotations.open_world_hint is False
        assert tool.input_schema["additionalProperties"] is False
        # Providers of models refuse a whole request for a tool with alternatives at its root.
        assert not {"oneOf", "anyOf", "allOf"} & set(tool.input_schema)
        assert tool.output_schema is not None
        assert tool.output_schema["type"] == "object"


async def test_an_organization_finds_its_way_from_whoami_to_a_schema(
    gateway: Asking, connect: Connect
) -> None:
    types = (await gateway.client.get("/api/workflows/types")).json()
    schema = (await gateway.client.get("/api/workflows/types/agents.memory-save/schema")).json()

    async with connect(gateway.url, key=gateway.api_key) as client:
        assert await ask(client, "whoami") == {
            "kind": "organization",
            "organization_uuid": str(gateway.organization_uuid),
            "scopes": ["admin", "read", "write"],
            "agent_config_uuid": None,
            "session_uuid": None,
            "caller": None,
        }
        assert await ask(client, "list_workflow_types") == types
        assert await ask(client, "get_workflow_schema", workflow_type="agents.memory-save") == schema

    assert len(types["types"]) == 4
    assert set(schema["input"]["required"]) >= {"session_uuid", "entries"}


async def test_a_run_is_started_and_found_by_every_tool_that_shows_runs(
    gateway: Asking, connect: Connect
) -> None:
    config = await gateway.config()
    initial = {"organization_uuid": str(gateway.organization_uuid), "agent_config_uuid": str(config)}

    async with connect(gateway.url, key=gateway.api_key) as client:
        started = await ask(
            client,
            "start_workflow",
            workflow_type="agents.memory-prune",
            initial_data=initial | {"max_entries": 5},
        )
        run_id = started["workflow_id"]
        status = await ask(client, "get_workflow_status", workflow_id=run_id)
        history = await ask(client, "get_workflow_history", workflow_id=run_id)
        listed = await ask(client, "list_workflows", type="agents.memory-prune", state="initiated", limit=5)

    assert started["state_name"] == "initiated"
    assert status == (await gateway.ask("GET", f"/api/workflows/{run_id}")).json()
    assert status["state_data"] == initial | {"max_entries": 5}
    assert history == (await gateway.ask("GET", f"/api/workflows/{run_id}/history")).json()
    assert [step["state_name"] for step in history["history"]] == ["initiated"]
    assert listed == {"runs": [status]}


async def test_a_load_that_is_started_is_answered_with_its_memory(gateway: Asking, connect: Connect) -> None:
    config = await gateway.config()
    session = await gateway.session(config, {"kind": "end_user", "ref": "ann"})
    await gateway.remember(config, "ann likes aisle seats", principal="ann")

    async with connect(gateway.url, key=gateway.api_key) as client:
        run = await ask(
            client,
            "start_workflow",
            workflow_type="agents.memory-load",
            initial_data={
                "organization_uuid": str(gateway.organization_uuid),
                "agent_config_uuid": str(config),
                "session_uuid": str(session.uuid),
            },
        )

    assert run["state_name"] == "completed"
    assert run["state_data"]["memory"] == "ann likes aisle seats"


async def test_a_watch_tells_progress_until_the_run_has_ended(gateway: Asking, connect: Connect) -> None:
    config = await gateway.config()
    run = (await gateway.start("agents.memory-prune", agent_config_uuid=str(config))).json()
    told: list[tuple[float, float | None, str | None]] = []
    begun = asyncio.Event()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))
        begun.set()

    async with connect(gateway.url, key=gateway.api_key) as client:
        watching = asyncio.create_task(
            client.call_tool(
                "watch_workflow", {"workflow_id": run["workflow_id"]}, progress_callback=on_progress
            )
        )
        await begun.wait()
        outputs = '{"deleted": 2, "remaining": 3}'
        await finish(gateway, WorkflowType.MEMORY_PRUNE, UUID(run["workflow_id"]), config, outputs=outputs)
        result = await watching

    ended = content_of(result)
    assert (ended["state_name"], ended["is_terminal"]) == ("completed", True)
    assert (ended["state_data"]["deleted"], ended["state_data"]["remaining"]) == (2, 3)
    assert {(total, message) for _, total, message in told} == {(20.0, "initiated")}
    assert [seconds for seconds, _, _ in told] == sorted({seconds for seconds, _, _ in told})


async def test_an_agent_recalls_what_is_remembered_for_its_caller(gateway: Asking, connect: Connect) -> None:
    config = await gateway.config(memory_strategy="pack")
    session = await gateway.session(config, {"kind": "end_user", "ref": "ann"}, task="book a seat")
    await gateway.remember(config, "ann likes aisle seats", principal="ann")
    await gateway.remember(config, "bob likes window seats", principal="bob")

    async with connect(gateway.url, token=session.token) as client:
        me = await ask(client, "whoami")
        result = await client.call_tool("recall", {"cue": "book a seat", "explain": True})

    assert me == {
        "kind": "session",
        "organization_uuid": str(gateway.organization_uuid),
        "scopes": None,
        "agent_config_uuid": str(config),
        "session_uuid": str(session.uuid),
        "caller": {"kind": "end_user", "ref": "ann"},
    }
    told = content_of(result)
    assert told["memory"] == "## Recalled memory (ranked for this task)\n\nann likes aisle seats"
    assert (told["count"], told["strategy"], told["skipped_reason"]) == (1, "pack", None)
    assert told["pack_id"] is not None
    assert len(told["explanation"]["entries"]) == 1
    assert json.loads(text_of(result)) == told


async def test_an_agent_remembers_and_sees_what_became_of_it(gateway: Asking, connect: Connect) -> None:
    config = await gateway.config()
    session = await gateway.session(config, {"kind": "end_user", "ref": "ann"})
    entries = [{"text": "Ann prefers aisle seats.", "importance": 0.8}]

    async with connect(gateway.url, token=session.token) as client:
        one = await ask(client, "remember", content="Ann flies with hand luggage only.")
        several = await ask(client, "remember", entries=entries)
        run_id = UUID(one["workflow_id"])
        await finish(
            gateway,
            WorkflowType.MEMORY_SAVE,
            run_id,
            config,
            session=session.uuid,
            outputs='{"saved": 1, "skipped": 0, "reinforced": 0}',
        )
        ended = await ask(client, "watch_workflow", workflow_id=str(run_id))
        history = await ask(client, "get_workflow_history", workflow_id=str(run_id))

    assert ended["state_data"]["saved"] == 1
    assert [step["state_name"] for step in history["history"]] == ["initiated", "run", "completed"]
    asked = [json.loads(row["payload"]) for row in await gateway.rows("SELECT payload FROM lorebus.outbox")]
    assert {event["event_id"] for event in asked} == {one["workflow_id"], several["workflow_id"]}
    assert {event["principal_ref"] for event in asked} == {"ann"}
    assert {event["origin"] for event in asked} == {"runner"}
    assert [event["entries"] for event in asked if event["event_id"] == several["workflow_id"]] == [entries]


async def test_a_refusal_is_the_problem_document_of_http(gateway: Asking, connect: Connect) -> None:
    async with connect(gateway.url, key=gateway.api_key) as client:
        result = await client.call_tool(
            "start_workflow", {"workflow_type": "agents.memory-prune", "initial_data": {}, "priority": 1}
        )
        foreign = await refusal(
            client,
            "start_workflow",
            workflow_type="agents.memory-prune",
            initial_data={"organization_uuid": str(uuid4()), "agent_config_uuid": str(uuid4())},
        )
        missing = await refusal(client, "get_workflow_status", workflow_id=str(uuid4()))

    assert result.is_error
    assert result.structured_content == {
        "type": "urn:lorebus:problem:invalid-request",
        "title": "The request is not valid",
        "status": 422,
        "detail": "See `faults`; nothing of the request was carried out.",
        "faults": [{"path": "priority", "problem": "is not a known key"}],
    }
    assert json.loads(text_of(result)) == result.structured_content
    assert (foreign["type"], foreign["status"]) == ("urn:lorebus:problem:forbidden", 403)
    assert (missing["type"], missing["status"]) == ("urn:lorebus:problem:not-found", 404)
