"""`lorebus mcp`: which gateway it asks, by which credential, and what it says when that one is away."""

import asyncio
import sys
from pathlib import Path

import pytest

from lorebus_ops.errors import StackError
from lorebus_ops.home import Home, LocalInfo
from lorebus_ops.ports import free_port
from lorebus_ops.target import Target, find_target
from tests.support.gateways import Asking, serving
from tests.support.mcp_clients import ask, over_stdio, refusal

LOCAL = LocalInfo(
    gateway_url="http://127.0.0.1:8080",
    api_key="lrb_local",
    organization_uuid="00000000-0000-7000-8000-000000000001",
    bootstrap_servers="127.0.0.1:9092",
    database_url="postgresql://x@127.0.0.1/x",
    migrations_database_url="postgresql://y@127.0.0.1/x",
    services={},
    pid=1,
)


@pytest.mark.parametrize(
    ("environment", "target"),
    [
        ({}, Target("http://127.0.0.1:8080", "Bearer lrb_local")),
        ({"LOREBUS_TOKEN": "a.b.c"}, Target("http://127.0.0.1:8080", "Agent a.b.c")),
        ({"LOREBUS_API_KEY": "lrb_x"}, Target("http://127.0.0.1:8080", "Bearer lrb_x")),
        (
            {"LOREBUS_URL": "https://lorebus.example/", "LOREBUS_API_KEY": "lrb_x"},
            Target("https://lorebus.example", "Bearer lrb_x"),
        ),
    ],
)
def test_the_environment_says_whom_to_ask_and_the_local_stack_what_it_leaves_out(
    environment: dict[str, str], target: Target
) -> None:
    assert find_target(environment, LOCAL) == target


@pytest.mark.parametrize(
    ("environment", "local", "said"),
    [
        ({}, None, "no local stack is up here; start it with `lorebus up`, or give LOREBUS_URL"),
        (
            {"LOREBUS_API_KEY": "x"},
            None,
            "no local stack is up here; start it with `lorebus up`, or give LOREBUS_URL",
        ),
        (
            {"LOREBUS_API_KEY": "x", "LOREBUS_TOKEN": "y"},
            LOCAL,
            "give LOREBUS_API_KEY or LOREBUS_TOKEN, not both: they open different tools",
        ),
        (
            {"LOREBUS_URL": "https://lorebus.example"},
            LOCAL,
            "LOREBUS_URL needs LOREBUS_API_KEY or LOREBUS_TOKEN with it",
        ),
    ],
)
def test_the_local_key_is_given_to_no_other_gateway_and_no_choice_is_guessed(
    environment: dict[str, str], local: LocalInfo | None, said: str
) -> None:
    with pytest.raises(StackError) as told:
        find_target(environment, local)

    assert str(told.value) == said


async def test_without_a_gateway_to_ask_the_command_says_what_to_do(tmp_path: Path) -> None:
    command = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lorebus_ops", "mcp"),
        env={"LOREBUS_HOME": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await command.communicate()

    assert (command.returncode, output) == (1, b"")
    assert errors == (
        b"lorebus: no local stack is up here; start it with `lorebus up`, or give LOREBUS_URL\n"
    )


async def test_the_running_local_stack_is_asked_with_its_own_key(gateway: Asking, tmp_path: Path) -> None:
    home = Home(tmp_path)
    with home.locked():
        home.publish(LocalInfo(gateway.url, gateway.api_key, *(4 * ("",)), services={}, pid=1))
        async with over_stdio("", LOREBUS_HOME=str(tmp_path)) as client:
            told = await ask(client, "whoami")

    assert told["organization_uuid"] == str(gateway.organization_uuid)


async def test_tools_are_listed_while_the_gateway_is_away_and_work_when_it_is_back(
    gateway: Asking, database_url: str
) -> None:
    port = free_port()

    async with over_stdio(f"http://127.0.0.1:{port}", key=gateway.api_key) as client:
        listed = (await client.list_tools()).tools
        away = await refusal(client, "whoami")
        async with serving(database_url, http_port=port):
            told = await ask(client, "whoami")
        gone = await refusal(client, "whoami")

    assert len(listed) == 10
    assert away == {
        "type": "urn:lorebus:problem:unavailable",
        "title": "Unavailable",
        "status": 503,
        "detail": "What is needed is away just now; nothing was accepted. Try again later.",
    }
    assert told["kind"] == "organization"
    assert gone == away


async def test_what_the_gateway_refuses_before_a_tool_comes_back_as_its_problem(gateway: Asking) -> None:
    session = await gateway.session(await gateway.config())
    entries = [{"text": "x" * 9_999}] * 100

    async with over_stdio(gateway.url, token=session.token) as client:
        told = await refusal(client, "remember", entries=entries, more="y" * 100_000)

    assert (told["type"], told["status"]) == ("urn:lorebus:problem:body-too-large", 413)
