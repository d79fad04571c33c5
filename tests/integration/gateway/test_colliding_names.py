"""Principals whose names look alike: over HTTP and the bus, each has its own memory alone (SPEC.md section 6)."""

from collections.abc import AsyncIterator
from typing import Any, Final
from uuid import UUID

import pytest

from lorebus_kit.bus import BusProducer
from tests.support.events import Scope, end_user, save
from tests.support.gateways import Asking, Registered, running_gateway
from tests.support.services import services

MEMORY: Final = "/api/app/agents/memory"
NAMES: Final = (
    "user1",
    "user10",
    "user1-x",
    "user1 ",
    "ann_lee",
    "ann-lee",
    "annXlee",
    "%",
    "_",
    "\\",
    "\\%",
    "a:b",
    "a|b",
    "a",
    "b",
    "Bob",
    "bob",
    "caf\u00e9",
    "cafe\u0301",
    "null",
    "*",
    "x" * 512,
)
TOO_LONG: Final = "x" * 10_000


@pytest.fixture
async def whole(database_url: str, bootstrap_servers: str, topics: str) -> AsyncIterator[Asking]:
    """A gateway that accepts on the bus, and a save consumer."""
    async with (
        services("save", database_url=database_url, bootstrap_servers=bootstrap_servers, topic_prefix=topics),
        running_gateway(
            database_url, accept="bus", bootstrap_servers=bootstrap_servers, topic_prefix=topics
        ) as gateway,
    ):
        yield gateway


async def registered(gateway: Asking, config: UUID, name: str | None) -> Registered:
    return await gateway.session(config, {"kind": "end_user", "ref": name})


async def listed(gateway: Asking, config: UUID, **conditions: object) -> list[tuple[str | None, str]]:
    params = {"agent_config_uuid": config, "per_page": 100, **conditions}
    answer = await gateway.ask("GET", MEMORY, params=params)
    items: list[dict[str, Any]] = answer.json()["items"]
    return sorted((item["principal_ref"], item["text"]) for item in items)


def canaries(name: str) -> list[str]:
    """What is saved for a principal: by HTTP, and by an event."""
    number = NAMES.index(name)
    return [f"canary {number} by event", f"canary {number} by http"]


async def saved_by_all(
    gateway: Asking, config: UUID, bootstrap_servers: str, topics: str
) -> dict[str, Registered]:
    """Each principal's session, with one canary saved over HTTP and one by an event on the bus."""
    scope = Scope(gateway.organization_uuid, config)
    sessions = {name: await registered(gateway, config, name) for name in NAMES}
    bus = BusProducer(bootstrap_servers, topic_prefix=topics)
    await bus.start(wait_seconds=20)
    try:
        for name, session in sessions.items():
            by_event, by_http = canaries(name)
            assert (await gateway.save(session, {"content": by_http})).status_code == 202
            event = save(scope, by_event, caller=end_user(name), session_uuid=session.uuid)
            await bus.publish(event.topic.name, key=event.key(), value=event.model_dump_json().encode())
    finally:
        await bus.stop()

    async def are_kept() -> bool:
        return len(await listed(gateway, config)) == 2 * len(NAMES)

    await gateway.until(are_kept, seconds=60)
    return sessions


async def test_each_of_many_that_look_alike_has_its_own_memory_alone(
    whole: Asking, bootstrap_servers: str, topics: str
) -> None:
    config = await whole.config(memory_strategy="full")
    sessions = await saved_by_all(whole, config, bootstrap_servers, topics)

    for name, session in sessions.items():
        loaded = (await whole.load(session, strategy="full")).json()["memory"].split("\n---\n")
        assert sorted(loaded) == canaries(name), name
        assert await listed(whole, config, principal_ref=name) == [(name, text) for text in canaries(name)]

    left = list(NAMES)
    while left:
        erased = await whole.ask("POST", f"{MEMORY}/erase", json={"principal_ref": left.pop()})
        assert erased.json()["counts"]["entries"] == 2
        expected = sorted((name, text) for name in left for text in canaries(name))
        assert await listed(whole, config) == expected


@pytest.mark.parametrize("nobody", [None, "", " ", "\t\u2003"])
async def test_an_end_user_without_a_name_is_nobody_and_not_somebody_called_so(
    whole: Asking, nobody: str | None
) -> None:
    config = await whole.config()
    await whole.remember(config, "of the pool")
    await whole.remember(config, "of the name null", principal="null")
    session = await registered(whole, config, nobody)

    load = (await whole.load(session)).json()
    save_run = await whole.save(session, {"content": "nobody's"}, headers={"prefer": "wait=30"})

    assert (load["memory"], load["skipped_reason"]) == ("", "unidentified_end_user")
    assert save_run.json()["state_data"]["skipped_reason"] == "unidentified_end_user"
    assert await listed(whole, config, shared="true") == [(None, "of the pool")]


async def test_a_name_of_ten_thousand_characters_is_refused_wherever_one_is_named(whole: Asking) -> None:
    config = await whole.config()
    body = {"agent_config_uuid": str(config), "caller": {"kind": "end_user", "ref": TOO_LONG}}

    refused = [
        await whole.ask("POST", "/api/app/agents/sessions", json=body),
        await whole.ask("POST", f"{MEMORY}/erase", json={"principal_ref": TOO_LONG}),
        await whole.ask("GET", MEMORY, params={"agent_config_uuid": config, "principal_ref": TOO_LONG}),
    ]

    assert [answer.status_code for answer in refused] == [422, 422, 422]
    assert TOO_LONG not in "".join(answer.text for answer in refused)
