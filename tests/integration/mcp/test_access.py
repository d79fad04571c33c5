"""Who may call which tool, and for whom: what HTTP would say, since the same credentials open the same things."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from mcp.shared.exceptions import MCPError

from lorebus_gateway.authentication import Authenticator
from lorebus_gateway.tools import TOOLS
from lorebus_kit.keys import create_key
from lorebus_kit.tokens import SessionTokens
from tests.support.gateways import NOBODY, TOKEN_SECRET, Asking, running_gateway, serving
from tests.support.mcp_clients import Connect, ask, over_http, over_http_of_2025, refusal

UNAUTHENTICATED = {
    "type": "urn:lorebus:problem:not-authenticated",
    "title": "Not authenticated",
    "status": 401,
    "detail": "A valid session token or API key is needed.",
}
OF_ORGANIZATIONS = ["start_workflow", "list_workflows"]
OF_SESSIONS = ["recall", "remember"]
OF_ANYONE = ["list_workflow_types", "get_workflow_schema"]
OF_EITHER = ["whoami", "get_workflow_status", "watch_workflow", "get_workflow_history"]


def test_these_lists_have_every_tool() -> None:
    assert sorted(TOOLS) == sorted([*OF_ORGANIZATIONS, *OF_SESSIONS, *OF_ANYONE, *OF_EITHER])
    open_to_all = [name for name, tool in TOOLS.items() if tool.access is Authenticator.anyone]
    assert sorted(open_to_all) == sorted(OF_ANYONE)


@pytest.mark.parametrize(
    "credentials", [{}, {"key": "lrb_nobodys"}, {"token": "not.a.token"}, {"token": "lrb_x"}]
)
async def test_only_types_and_schemas_are_open_without_sound_credentials(
    gateway: Asking, credentials: dict[str, str]
) -> None:
    async with over_http(gateway.url, **credentials) as client:
        for tool in [*OF_ORGANIZATIONS, *OF_SESSIONS, *OF_EITHER]:
            # Arguments are looked at only after the credentials.
            assert await refusal(client, tool, nonsense=1) == UNAUTHENTICATED
        assert len((await ask(client, "list_workflow_types"))["types"]) == 4
        await ask(client, "get_workflow_schema", workflow_type="agents.memory-prune")


async def test_a_session_token_opens_no_tool_of_the_organization(gateway: Asking) -> None:
    session = await gateway.session(await gateway.config())

    async with over_http(gateway.url, token=session.token) as client:
        for tool in OF_ORGANIZATIONS:
            assert await refusal(client, tool) == UNAUTHENTICATED


async def test_an_api_key_opens_no_tool_of_a_session(gateway: Asking) -> None:
    async with over_http(gateway.url, key=gateway.api_key) as client:
        assert await refusal(client, "recall") == UNAUTHENTICATED
        assert await refusal(client, "remember", content="x") == UNAUTHENTICATED

    assert not await gateway.rows("SELECT id FROM lorebus.outbox")


async def test_an_expired_token_opens_nothing(gateway: Asking) -> None:
    session = await gateway.session(await gateway.config())
    tokens = SessionTokens([TOKEN_SECRET], lifetime=timedelta(hours=-1))
    claims = SessionTokens([TOKEN_SECRET], lifetime=timedelta(hours=1)).verify(session.token).claims
    expired, _ = tokens.mint(claims, now=datetime.now(UTC))

    async with over_http(gateway.url, token=expired) as client:
        assert await refusal(client, "recall") == UNAUTHENTICATED


async def test_a_run_of_another_organization_is_not_there(gateway: Asking) -> None:
    config = await gateway.config()
    run = (await gateway.start("agents.memory-prune", agent_config_uuid=str(config))).json()
    other = await create_key(gateway.database, UUID(int=7), name="other")

    async with over_http(gateway.url, key=other) as client:
        for tool in ("get_workflow_status", "watch_workflow", "get_workflow_history"):
            assert (await refusal(client, tool, workflow_id=run["workflow_id"]))["status"] == 404
        assert await ask(client, "list_workflows") == {"runs": []}


async def test_a_session_sees_the_runs_that_it_started_and_no_others(gateway: Asking) -> None:
    config = await gateway.config()
    mine, theirs = await gateway.session(config), await gateway.session(config)
    run_id = (await gateway.save(mine, {"content": "x"})).json()["workflow_id"]

    async with over_http(gateway.url, token=mine.token) as client:
        assert (await ask(client, "get_workflow_status", workflow_id=run_id))["workflow_id"] == run_id
    async with over_http(gateway.url, token=theirs.token) as client:
        assert (await refusal(client, "get_workflow_status", workflow_id=run_id))["status"] == 404


async def test_a_run_is_started_for_the_keys_own_organization_only(gateway: Asking) -> None:
    config = await gateway.config()
    other = uuid4()
    key = await create_key(gateway.database, other, name="other")
    initial = {"organization_uuid": str(gateway.organization_uuid), "agent_config_uuid": str(config)}

    async with over_http(gateway.url, key=key) as client:
        forbidden = await refusal(
            client, "start_workflow", workflow_type="agents.memory-prune", initial_data=initial
        )
        missing = await refusal(
            client,
            "start_workflow",
            workflow_type="agents.memory-prune",
            initial_data=initial | {"organization_uuid": str(other)},
        )

    assert (forbidden["status"], missing["status"]) == (403, 404)
    assert not await gateway.rows("SELECT id FROM lorebus.outbox")


async def test_an_end_user_whom_nobody_identified_has_no_memory_and_is_told_why(gateway: Asking) -> None:
    config = await gateway.config()
    session = await gateway.session(config, {"kind": "end_user", "ref": None})
    await gateway.remember(config, "the shared pool", principal=None)

    async with over_http(gateway.url, token=session.token) as client:
        told = await ask(client, "recall")

    assert (told["memory"], told["count"], told["recall_id"]) == ("", 0, None)
    assert told["skipped_reason"] == "unidentified_end_user"


async def test_an_agents_arguments_cannot_widen_its_scope(gateway: Asking) -> None:
    config = await gateway.config()
    session = await gateway.session(config, {"kind": "end_user", "ref": "ann"})

    async with over_http(gateway.url, token=session.token) as client:
        recall = await refusal(client, "recall", principal_ref="bob")
        remember = await refusal(client, "remember", content="x", session_uuid=str(uuid4()))

    assert recall["faults"] == [{"path": "principal_ref", "problem": "is not a known key"}]
    assert remember["faults"] == [{"path": "session_uuid", "problem": "is not a known key"}]


async def test_arguments_are_held_to_the_same_limits_as_bodies(gateway: Asking) -> None:
    session = await gateway.session(await gateway.config())

    async with over_http(gateway.url, token=session.token) as client:
        both = await refusal(client, "remember", content="x", entries=[{"text": "y"}])
        long = await refusal(client, "remember", content="x" * 10_001)
        wrong = await refusal(client, "recall", strategy="best", top_k=0)
        far = await refusal(client, "watch_workflow", workflow_id=str(uuid4()), timeout_seconds=31)

    assert both["faults"][0]["problem"] == "takes either `entries` or `content`, one of the two"
    assert long["faults"][0]["path"] == "content"
    assert [fault["path"] for fault in wrong["faults"]] == ["strategy", "top_k"]
    assert far["faults"] == [{"path": "timeout_seconds", "problem": "should be less than or equal to 30"}]


async def test_calls_of_tools_count_against_the_limit_of_the_credentials(database_url: str) -> None:
    async with running_gateway(database_url, rate_limit_per_minute=2) as gateway:
        other = await create_key(gateway.database, gateway.organization_uuid, name="second")
        async with over_http(gateway.url, key=other) as client:
            told = [(await client.call_tool("whoami")).is_error for _ in range(2)]
            refused = await refusal(client, "whoami")
            open_to_all = await ask(client, "list_workflow_types")
        by_route = await gateway.ask("GET", "/api/workflows", key=other)

    assert told == [False, False]
    assert (refused["type"], refused["status"]) == ("urn:lorebus:problem:too-many-requests", 429)
    assert by_route.status_code == 429
    assert len(open_to_all["types"]) == 4


async def test_without_its_database_a_tool_says_that_it_is_unavailable(database_url: str) -> None:
    async with running_gateway(database_url) as gateway:
        session = await gateway.session(await gateway.config())
    away = f"postgresql://nobody@{NOBODY}/none"

    async with serving(away) as url, over_http(url, token=session.token) as client:
        told = await refusal(client, "recall")

    assert (told["type"], told["status"]) == ("urn:lorebus:problem:unavailable", 503)


@pytest.mark.parametrize("connect", [over_http, over_http_of_2025])
async def test_an_error_of_ours_is_told_without_its_text(gateway: Asking, connect: Connect) -> None:
    async with gateway.database.begin() as connection:
        await connection.exec_driver_sql("ALTER TABLE lorebus.workflow_runs RENAME TO gone")

    async with connect(gateway.url, key=gateway.api_key) as client:
        told = await refusal(client, "list_workflows")

    assert told == {
        "type": "urn:lorebus:problem:internal",
        "title": "Internal error",
        "status": 500,
        "detail": "Something went wrong here; it has been logged. Nothing is known to be done.",
    }


@pytest.mark.parametrize("connect", [over_http, over_http_of_2025])
async def test_a_tool_that_is_not_there_is_an_error_of_the_protocol(
    gateway: Asking, connect: Connect
) -> None:
    async with connect(gateway.url, key=gateway.api_key) as client:
        with pytest.raises(MCPError) as told:
            await client.call_tool("forget_everything", {})

    assert (told.value.code, told.value.message) == (-32602, "There is no such tool; see tools/list.")


@pytest.mark.parametrize("connect", [over_http, over_http_of_2025])
async def test_a_watch_whose_time_is_up_shows_the_run_as_it_is(gateway: Asking, connect: Connect) -> None:
    config = await gateway.config()
    run = (await gateway.start("agents.memory-prune", agent_config_uuid=str(config))).json()

    async with connect(gateway.url, key=gateway.api_key) as client:
        shown = await ask(client, "watch_workflow", workflow_id=run["workflow_id"], timeout_seconds=0.1)

    assert (shown["state_name"], shown["is_terminal"]) == ("initiated", False)
