"""What an API key may be used for (`docs/architecture/http.md`): routes and tools ask for their scopes."""

import json
import re
from uuid import UUID

import pytest

from lorebus_domain.key_scope import KeyScope
from lorebus_gateway.authentication import Authenticator
from lorebus_gateway.routes import ROUTES
from lorebus_kit.keys import create_key
from tests.contract.golden_files import ROOT
from tests.support.gateways import Asking
from tests.support.mcp_clients import ask, over_http, refusal

PAGE = ROOT / "docs" / "architecture" / "http.md"
FORBIDDEN = (
    b'{"type":"urn:lorebus:problem:forbidden","title":"Forbidden","status":403,'
    b'"detail":"The credentials given do not reach this."}'
)
SOMETHING = str(UUID(int=5))


def told_by_the_page() -> dict[str, set[str]]:
    """The scopes of each `METHOD path`, as the table of the page has them."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## What a key is for\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ((?:`\w+`(?: and )?)+|none) \| (.+) \|$", section, re.MULTILINE)
    return {
        route: set(re.findall(r"`(\w+)`", scopes))
        for scopes, routes in rows
        for route in re.findall(r"`([A-Z]+ [^`]+)`", routes)
    }


async def key_for(gateway: Asking, *scopes: str) -> str:
    wanted = [KeyScope(scope) for scope in scopes]
    return await create_key(gateway.database, gateway.organization_uuid, name="some", scopes=wanted)


def test_the_page_tells_the_scopes_of_every_route_that_takes_a_key() -> None:
    takes_a_key = {Authenticator.organization, Authenticator.session_or_organization}
    needed = {
        f"{route.method} {route.path}": set(map(str, route.scopes))
        for route in ROUTES
        if route.access in takes_a_key
    }

    assert told_by_the_page() == needed


async def test_a_key_without_one_of_a_routes_scopes_gets_one_and_the_same_answer(gateway: Asking) -> None:
    lacking = {
        scope: await key_for(gateway, *(other for other in KeyScope if other != scope)) for scope in KeyScope
    }
    asked = [(route, scope) for route in ROUTES for scope in KeyScope]

    for route, scope in asked:
        if route.access in {Authenticator.anyone, Authenticator.session}:
            continue
        path = re.sub(r"\{\w+\}", SOMETHING, route.path)
        if path.endswith("/feed"):
            # It would go on for ever where it is let in; what is no kind of change is refused first.
            path += "?kind=nothing"
        answer = await gateway.client.request(
            route.method, path, headers={"authorization": f"Bearer {lacking[scope]}"}, content=b"no JSON"
        )

        if scope in route.scopes:
            assert (answer.status_code, answer.content) == (403, FORBIDDEN), (route.method, path)
        else:
            assert answer.status_code not in {401, 403}, (route.method, path, scope)


@pytest.mark.parametrize(
    ("kind", "scope"),
    [
        ("agents.memory-load", "read"),
        ("agents.memory-save", "write"),
        ("agents.memory-distill", "write"),
        ("agents.memory-prune", "admin"),
    ],
)
async def test_starting_a_run_needs_what_its_type_does(gateway: Asking, kind: str, scope: str) -> None:
    body = {"workflow_type": kind, "initial_data": {}}

    answers = {
        only: await gateway.ask("POST", "/api/workflows/start", key=await key_for(gateway, only), json=body)
        for only in KeyScope
    }

    assert answers.pop(KeyScope(scope)).status_code == 422
    assert [(answer.status_code, answer.content) for answer in answers.values()] == [(403, FORBIDDEN)] * 2


async def test_an_answer_kept_for_one_key_is_not_given_to_another_that_is_not_for_it(gateway: Asking) -> None:
    config = await gateway.config()
    await gateway.remember(config, "a secret of the pool")
    session = await gateway.session(config)
    body = {
        "workflow_type": "agents.memory-load",
        "initial_data": {
            "organization_uuid": str(gateway.organization_uuid),
            "agent_config_uuid": str(config),
            "session_uuid": str(session.uuid),
        },
    }
    headers = {"idempotency-key": "one"}
    first = await gateway.ask("POST", "/api/workflows/start", json=body, headers=headers)
    assert first.json()["state_data"]["memory"] == "a secret of the pool"

    writer = await key_for(gateway, "write")
    again = await gateway.ask("POST", "/api/workflows/start", json=body, headers=headers, key=writer)

    assert (again.status_code, again.content) == (403, FORBIDDEN)


async def test_a_tool_asks_for_the_same_scopes_as_its_route(gateway: Asking) -> None:
    config = await gateway.config()
    prune = {
        "workflow_type": "agents.memory-prune",
        "initial_data": {
            "organization_uuid": str(gateway.organization_uuid),
            "agent_config_uuid": str(config),
        },
    }

    async with over_http(gateway.url, key=await key_for(gateway, "write")) as client:
        whoami = await ask(client, "whoami")
        refused = [
            await refusal(client, "list_workflows"),
            await refusal(client, "get_workflow_status", workflow_id=SOMETHING),
            await refusal(client, "get_workflow_history", workflow_id=SOMETHING),
            await refusal(client, "watch_workflow", workflow_id=SOMETHING),
            await refusal(client, "start_workflow", **prune),
        ]
    async with over_http(gateway.url, key=await key_for(gateway, "read", "admin")) as client:
        listed = await ask(client, "list_workflows")
        started = await ask(client, "start_workflow", **prune)

    assert whoami["scopes"] == ["write"]
    assert refused == [json.loads(FORBIDDEN)] * 5
    assert (listed, started["state_name"]) == ({"runs": []}, "initiated")
