"""API keys over HTTP: shown once, scoped, revocable, and never without one that may make others."""

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import httpx
import pytest

from lorebus_gateway.key_uses import KeyUses
from lorebus_kit.keys import create_key
from lorebus_store import keys
from tests.support.gateways import Asking, running_gateway

KEYS = "/api/app/organization/keys"
READER = {"name": "a dashboard", "scopes": ["read"]}


async def made(gateway: Asking, *scopes: str, name: str = "some") -> Mapping[str, Any]:
    answer = await gateway.ask("POST", KEYS, json={"name": name, "scopes": scopes})
    assert answer.status_code == 201, answer.text
    told: Mapping[str, Any] = answer.json()
    return told


async def last_used(gateway: Asking) -> list[object]:
    async with gateway.database.begin() as connection:
        return [key.last_used_at for key in await keys.list_keys(connection, gateway.organization_uuid)]


async def test_a_new_key_is_shown_once_and_opens_what_it_is_for(gateway: Asking) -> None:
    told = await made(gateway, "read", name="a dashboard")

    listed = (await gateway.ask("GET", KEYS)).json()["keys"]
    opened = await gateway.ask("GET", "/api/app/organization", key=told["key"])

    assert (len(told["key"]), told["prefix"]) == (47, told["key"][:12])
    assert listed[1] == {name: value for name, value in told.items() if name != "key"}
    assert (listed[1]["name"], listed[1]["scopes"]) == ("a dashboard", ["read"])
    assert (listed[1]["last_used_at"], listed[1]["revoked_at"]) == (None, None)
    assert told["key"] not in (await gateway.ask("GET", KEYS)).text
    assert opened.status_code == 200


async def test_a_key_grants_no_scope_that_it_has_not(gateway: Asking) -> None:
    admin = (await made(gateway, "admin"))["key"]

    wider = await gateway.ask("POST", KEYS, key=admin, json={"name": "x", "scopes": ["admin", "read"]})
    same = await gateway.ask("POST", KEYS, key=admin, json={"name": "x", "scopes": ["admin"]})

    assert (wider.status_code, same.status_code) == (403, 201)
    assert len((await gateway.ask("GET", KEYS)).json()["keys"]) == 3


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x"},
        {"name": "x", "scopes": []},
        {"name": "x", "scopes": ["root"]},
        {"name": "x", "scopes": ["read", "read"]},
        {"name": "", "scopes": ["read"]},
        {"name": "x", "scopes": ["read"], "key": "lrb_mine"},
    ],
)
async def test_a_key_that_is_not_what_it_should_be_is_refused(gateway: Asking, body: object) -> None:
    assert (await gateway.ask("POST", KEYS, json=body)).status_code == 422


async def test_the_same_request_again_makes_one_key_and_does_not_show_it_again(gateway: Asking) -> None:
    headers = {"idempotency-key": "one"}
    first = await gateway.ask("POST", KEYS, json=READER, headers=headers)
    again = await gateway.ask("POST", KEYS, json=READER, headers=headers)
    kept = await gateway.rows("SELECT response FROM lorebus.idempotency_keys")
    async with gateway.database.begin() as connection:
        await connection.exec_driver_sql("DELETE FROM lorebus.idempotency_keys")
    unkept = await gateway.ask("POST", KEYS, json=READER, headers=headers)

    plain = first.json()["key"]
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == unkept.json() == first.json() | {"key": None}
    assert len(kept) == 1
    assert plain.encode() not in kept[0]["response"]
    assert len((await gateway.ask("GET", KEYS)).json()["keys"]) == 2


async def test_a_revoked_key_is_refused_and_still_listed(gateway: Asking) -> None:
    told = await made(gateway, "read")
    assert (await gateway.ask("GET", "/api/app/organization", key=told["key"])).status_code == 200

    revoked = await gateway.ask("DELETE", f"{KEYS}/{told['key_id']}")
    again = await gateway.ask("DELETE", f"{KEYS}/{told['key_id']}")

    async def is_refused() -> bool:
        return (await gateway.ask("GET", "/api/app/organization", key=told["key"])).status_code == 401

    await gateway.until(is_refused)
    assert (revoked.status_code, again.status_code) == (204, 404)
    assert (await gateway.ask("GET", KEYS)).json()["keys"][1]["revoked_at"] is not None


async def test_a_key_of_another_organization_is_neither_listed_nor_revoked(gateway: Asking) -> None:
    other = UUID(int=7)
    theirs = await create_key(gateway.database, other, name="theirs")
    async with gateway.database.begin() as connection:
        (their_key,) = await keys.list_keys(connection, other)

    answer = await gateway.ask("DELETE", f"{KEYS}/{their_key.id}")

    assert answer.status_code == 404
    assert str(their_key.id) not in (await gateway.ask("GET", KEYS)).text
    assert (await gateway.ask("GET", KEYS, key=theirs)).status_code == 200


async def test_the_last_key_that_may_make_keys_stays(gateway: Asking) -> None:
    await made(gateway, "read", "write")
    (first, _) = (await gateway.ask("GET", KEYS)).json()["keys"]

    alone = await gateway.ask("DELETE", f"{KEYS}/{first['key_id']}")
    await made(gateway, "admin")
    with_another = await gateway.ask("DELETE", f"{KEYS}/{first['key_id']}")

    assert (alone.status_code, with_another.status_code) == (409, 204)
    assert alone.json()["type"] == "urn:lorebus:problem:conflict"


async def test_of_two_last_ones_that_revoke_each_other_one_stays(gateway: Asking) -> None:
    for _ in range(10):
        second = await made(gateway, "admin", "read", "write")
        ids = [
            key["key_id"]
            for key in (await gateway.ask("GET", KEYS, key=second["key"])).json()["keys"]
            if key["revoked_at"] is None
        ]
        answers: list[httpx.Response] = await asyncio.gather(
            *(gateway.ask("DELETE", f"{KEYS}/{key_id}", key=second["key"]) for key_id in ids)
        )
        assert sorted(answer.status_code for answer in answers) == [204, 409]
        async with gateway.database.begin() as connection:
            await connection.exec_driver_sql(
                "UPDATE lorebus.api_keys SET revoked_at = NULL WHERE name = 'test'"
            )
            await connection.exec_driver_sql(
                "UPDATE lorebus.api_keys SET revoked_at = now() WHERE name <> 'test'"
            )


async def test_a_use_is_written_down_behind_the_request(database_url: str) -> None:
    async with running_gateway(database_url) as gateway:
        await create_key(gateway.database, gateway.organization_uuid, name="unused")
        assert (await gateway.ask("GET", KEYS)).status_code == 200
        asking = gateway

    async with running_gateway(database_url) as gateway, gateway.database.begin() as connection:
        used, unused = await keys.list_keys(connection, asking.organization_uuid)

    assert used.last_used_at is not None
    assert unused.last_used_at is None


async def test_a_key_in_use_is_written_down_once_a_minute(gateway: Asking) -> None:
    clock = iter((0.0, 1.0, 59.0, 60.0))
    uses = KeyUses(gateway.database, clock=lambda: next(clock))
    async with gateway.database.begin() as connection:
        (key,) = await keys.list_keys(connection, gateway.organization_uuid)

    written = []
    for _ in range(4):
        uses.note(gateway.organization_uuid, key.id)
        before = await last_used(gateway)
        await uses.write()
        written.append(await last_used(gateway) != before)

    assert written == [True, False, False, True]
