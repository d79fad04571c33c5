"""Who is let in (SPEC.md section 8): sound credentials only, and a refusal tells nothing (cases c28, c29)."""

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import jwt
import pytest

from lorebus_domain.visibility import EndUser
from lorebus_gateway.authentication import Authenticator
from lorebus_gateway.routes import ROUTES
from lorebus_kit.keys import create_key
from lorebus_kit.tokens import SessionClaims, SessionTokens, key_id
from lorebus_store import keys
from tests.support.gateways import TOKEN_SECRET, Asking

UNAUTHENTICATED = {
    "type": "urn:lorebus:problem:not-authenticated",
    "title": "Not authenticated",
    "status": 401,
    "detail": "A valid session token or API key is needed.",
}
SESSION = UUID("00000000-0000-4000-8000-0000000000e1")
SAVE = f"/api/agents/sessions/{SESSION}/memory-save"


def claims() -> dict[str, object]:
    now = int(datetime.now(UTC).timestamp())
    return {
        "iss": "lorebus",
        "aud": "lorebus-gateway",
        "sub": str(SESSION),
        "org": str(uuid4()),
        "cfg": str(uuid4()),
        "caller": {"kind": "end_user", "ref": "bob"},
        "iat": now,
        "exp": now + 600,
    }


def signed(payload: dict[str, object], secret: str = TOKEN_SECRET, algorithm: str = "HS256") -> str:
    return jwt.encode(payload, secret, algorithm=algorithm, headers={"kid": key_id(TOKEN_SECRET)})


async def test_a_token_made_with_the_shared_secret_is_taken(gateway: Asking) -> None:
    answer = await gateway.ask("POST", SAVE, token=signed(claims()), json={"content": "x"})

    assert answer.status_code == 202


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "somebody"},
        {"iss": "somebody"},
        {"exp": 1_700_000_000},
        {"exp": "9999999999"},
        {"exp": None},
        {"sub": None},
        {"org": None},
        {"cfg": "x"},
        {"caller": {"kind": "actor", "ref": " "}},
        {"caller": {"kind": "end_user", "ref": "a\0b"}},
    ],
)
async def test_a_token_that_is_wrong_in_any_way_gets_one_and_the_same_answer(
    gateway: Asking, changes: dict[str, object]
) -> None:
    payload = {name: value for name, value in (claims() | changes).items() if value is not None}

    # PyJWT refuses to make some of these from its own types, so that the text is signed as it is.
    answer = await gateway.ask("POST", SAVE, token=signed(payload), json={"content": "x"})

    assert (answer.status_code, answer.json()) == (401, UNAUTHENTICATED)
    assert answer.headers["www-authenticate"] == "Agent, Bearer"


async def test_a_token_without_a_signature_is_refused(gateway: Asking) -> None:
    answer = await gateway.ask("POST", SAVE, token=signed(claims(), "", "none"), json={"content": "x"})

    assert (answer.status_code, answer.json()) == (401, UNAUTHENTICATED)


async def test_a_token_of_another_secret_is_refused(gateway: Asking) -> None:
    token = signed(claims(), "another-secret-of-enough-characters-0123")

    answer = await gateway.ask("POST", SAVE, token=token, json={"content": "x"})

    assert (answer.status_code, answer.json()) == (401, UNAUTHENTICATED)


async def test_a_token_expires_ten_seconds_late(gateway: Asking) -> None:
    now = int(datetime.now(UTC).timestamp())

    within = await gateway.ask("POST", SAVE, token=signed(claims() | {"exp": now - 3}), json={"content": "x"})
    beyond = await gateway.ask(
        "POST", SAVE, token=signed(claims() | {"exp": now - 30}), json={"content": "x"}
    )

    assert (within.status_code, beyond.status_code) == (202, 401)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Agent",
        "Bearer",
        "Bearer nothing",
        "Bearer " + "x" * 9_000,
        "Basic YTpi",
        "Agent not.a.token",
        "Agent \xe9\xe9",
        "lrb_plain",
    ],
)
async def test_no_route_of_the_api_answers_without_sound_credentials(gateway: Asking, header: str) -> None:
    guarded = [route for route in ROUTES if route.access is not Authenticator.anyone]
    assert len(guarded) >= 16

    for route in guarded:
        path = re.sub(r"\{\w+\}", str(SESSION), route.path)
        headers = [(b"authorization", header.encode("latin-1"))] if header else []
        answer = await gateway.client.request(route.method, path, headers=headers, content=b"never looked at")

        assert (answer.status_code, answer.json()) == (401, UNAUTHENTICATED), route.path


async def test_a_session_token_opens_no_route_of_the_organization_nor_a_key_one_of_the_session(
    gateway: Asking,
) -> None:
    by_token = await gateway.ask("GET", "/api/app/organization", token=signed(claims()))
    by_key = await gateway.ask("POST", SAVE, json={"content": "x"})

    assert (by_token.status_code, by_key.status_code) == (401, 401)


async def test_a_token_of_one_session_is_no_use_for_another(gateway: Asking) -> None:
    path = f"/api/agents/sessions/{uuid4()}"

    save = await gateway.ask("POST", f"{path}/memory-save", token=signed(claims()), json={"content": "x"})
    load = await gateway.ask("POST", f"{path}/memory-load", token=signed(claims()), json={})
    odd = await gateway.ask("POST", "/api/agents/sessions/x/memory-load", token=signed(claims()), json={})

    assert [answer.status_code for answer in (save, load, odd)] == [403, 403, 403]
    assert save.json() == {
        "type": "urn:lorebus:problem:forbidden",
        "title": "Forbidden",
        "status": 403,
        "detail": "The credentials given do not reach this.",
    }
    assert not await gateway.rows("SELECT id FROM lorebus.outbox")


async def test_a_key_that_was_revoked_no_longer_opens_once_it_is_forgotten(gateway: Asking) -> None:
    plain = await create_key(gateway.database, gateway.organization_uuid, name="second")
    assert (await gateway.ask("GET", "/api/app/organization", key=plain)).status_code == 200
    async with gateway.database.begin() as connection:
        second = (await keys.list_keys(connection, gateway.organization_uuid))[-1]
        await keys.revoke(connection, organization_uuid=gateway.organization_uuid, key_id=second.id)

    async def is_refused() -> bool:
        return (await gateway.ask("GET", "/api/app/organization", key=plain)).status_code == 401

    await gateway.until(is_refused)


async def test_the_key_itself_is_nowhere_in_the_database(gateway: Asking) -> None:
    (row,) = await gateway.rows("SELECT prefix, key_hash FROM lorebus.api_keys")

    assert gateway.api_key.startswith("lrb_")
    assert len(gateway.api_key) == 47
    assert row["prefix"] == gateway.api_key[:12]
    assert len(row["key_hash"]) == 32


async def test_a_token_fixes_the_caller_whatever_the_session_was_registered_with(gateway: Asking) -> None:
    config = await gateway.config()
    session = await gateway.session(config, {"kind": "end_user", "ref": "bob"})
    await gateway.remember(config, "ann likes aisle seats", principal="ann")
    tokens = SessionTokens([TOKEN_SECRET], lifetime=timedelta(minutes=5))
    told = SessionClaims(gateway.organization_uuid, config, session.uuid, EndUser("ann"))
    token, _ = tokens.mint(told, now=datetime.now(UTC))

    path = f"/api/agents/sessions/{session.uuid}/memory-load"
    answer = await gateway.ask("POST", path, token=token, json={})

    assert answer.json()["memory"] == "ann likes aisle seats"
