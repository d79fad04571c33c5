"""Credentials that are forged, spent or somebody else's: refused with one constant body, over HTTP and over MCP.

Each case says in words what is tried; `docs/isolation-report.md` has the same words and answers, and a test holds them
together.
"""

import base64
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias
from uuid import UUID, uuid4

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from lorebus_kit.keys import create_key
from lorebus_kit.tokens import key_id
from lorebus_store import keys
from tests.contract.golden_files import ROOT
from tests.support.gateways import TOKEN_SECRET, Asking, Registered, running_gateway
from tests.support.mcp_clients import over_http, refusal

REPORT: Final = ROOT / "docs" / "isolation-report.md"
BODIES: Final = {
    401: (
        b'{"type":"urn:lorebus:problem:not-authenticated","title":"Not authenticated","status":401,'
        b'"detail":"A valid session token or API key is needed."}'
    ),
    403: (
        b'{"type":"urn:lorebus:problem:forbidden","title":"Forbidden","status":403,'
        b'"detail":"The credentials given do not reach this."}'
    ),
}
CANARY: Final = "canary-of-bob"


@dataclass(frozen=True, slots=True)
class Stage:
    """A gateway whose tokens end with their sessions, bob's session in it, and somebody else's organization."""

    gateway: Asking
    config: UUID
    session: Registered
    other_organization: UUID
    other_config: UUID
    other_key: str

    def payload(self) -> dict[str, Any]:
        """The claims of a sound token of bob's session."""
        now = int(datetime.now(UTC).timestamp())
        return {
            "iss": "lorebus",
            "aud": "lorebus-gateway",
            "sub": str(self.session.uuid),
            "org": str(self.gateway.organization_uuid),
            "cfg": str(self.config),
            "caller": {"kind": "end_user", "ref": "bob"},
            "iat": now,
            "exp": now + 600,
        }

    def paths(self) -> tuple[str, str]:
        """Bob's load and save."""
        of_session = f"/api/agents/sessions/{self.session.uuid}"
        return f"{of_session}/memory-load", f"{of_session}/memory-save"


@pytest.fixture
async def stage(database_url: str) -> AsyncIterator[Stage]:
    async with running_gateway(database_url, token_grace_seconds=0.05) as gateway:
        config = await gateway.config()
        await gateway.remember(config, CANARY, principal="bob")
        session = await gateway.session(config, {"kind": "end_user", "ref": "bob"})
        other, other_config = uuid4(), uuid4()
        other_key = await create_key(gateway.database, other, name="other")
        path = f"/api/app/agents/configs/{other_config}"
        assert (await gateway.ask("PUT", path, key=other_key, json={})).status_code == 200
        yield Stage(gateway, config, session, other, other_config, other_key)


Forge: TypeAlias = Callable[[Stage], Awaitable[str]]


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(
    payload: Mapping[str, object],
    *,
    algorithm: str = "HS256",
    secret: bytes = TOKEN_SECRET.encode(),
    **head: object,
) -> str:
    """A token as whoever has a secret could make it, whatever its head says; PyJWT would refuse to make some."""
    told = {"alg": algorithm, "typ": "JWT", "kid": key_id(TOKEN_SECRET)} | head
    # What is None is left out.
    parts = [
        b64(json.dumps({name: value for name, value in part.items() if value is not None}).encode())
        for part in (told, payload)
    ]
    by = jwt.get_algorithm_by_name(algorithm if algorithm.startswith("HS") else "HS256")
    return ".".join((*parts, b64(by.sign(".".join(parts).encode(), secret))))


def with_claims(**changes: object) -> Forge:
    async def forge(stage: Stage) -> str:
        return signed(stage.payload() | changes)

    return forge


def with_head(**head: object) -> Forge:
    async def forge(stage: Stage) -> str:
        return signed(stage.payload(), **head)  # type: ignore[arg-type] # `alg` is what is tried, not how it is signed.

    return forge


async def unsigned(stage: Stage) -> str:
    return jwt.encode(stage.payload(), "", algorithm="none", headers={"kid": key_id(TOKEN_SECRET)})


async def unsigned_with_the_old_signature(stage: Stage) -> str:
    return ".".join((*(await unsigned(stage)).split(".")[:2], stage.session.token.split(".")[2]))


async def signed_by_rsa(stage: Stage) -> str:
    mine = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return jwt.encode(stage.payload(), mine, algorithm="RS256", headers={"kid": key_id(TOKEN_SECRET)})


async def signed_with_a_public_key_as_secret(stage: Stage) -> str:
    public = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return signed(stage.payload(), secret=pem)


async def by_another_algorithm(stage: Stage) -> str:
    return signed(stage.payload(), algorithm="HS512")


async def by_another_secret(stage: Stage) -> str:
    return signed(stage.payload(), secret=b"another-secret-of-enough-characters-0123")


async def expired(stage: Stage) -> str:
    now = stage.payload()["iat"]
    return signed(stage.payload() | {"iat": now - 600, "exp": now - 11})


async def from_the_future(stage: Stage) -> str:
    return signed(stage.payload() | {"iat": stage.payload()["iat"] + 300})


async def altered(stage: Stage) -> str:
    head, _, signature = stage.session.token.split(".")
    theirs = stage.payload() | {"org": str(stage.other_organization), "cfg": str(stage.other_config)}
    return ".".join((head, b64(json.dumps(theirs).encode()), signature))


async def truncated_token(stage: Stage) -> str:
    return stage.session.token[:-1]


async def of_an_ended_session(stage: Stage) -> str:
    gateway, session = stage.gateway, stage.session
    end = {"outcome": "success", "step_count": 0}
    await gateway.ask("POST", f"/api/app/agents/sessions/{session.uuid}/end", json=end)

    async def is_over() -> bool:
        return (await gateway.load(session)).status_code == 401

    await gateway.until(is_over)
    return session.token


async def the_api_key(stage: Stage) -> str:
    return stage.gateway.api_key


TOKENS: Final[dict[str, Forge]] = {
    "a token with `alg` none and no signature": unsigned,
    "a token with `alg` none and another one's signature": unsigned_with_the_old_signature,
    "a token with `alg` RS256, signed with an RSA key of the forger's": signed_by_rsa,
    "a token with `alg` RS256, signed with our secret": with_head(alg="RS256"),
    "a token signed with a public key as the secret": signed_with_a_public_key_as_secret,
    "a token signed with our secret by HS512": by_another_algorithm,
    "a token signed with another secret": by_another_secret,
    "a token for another `aud`": with_claims(aud="somebody-else"),
    "a token for our `aud` and another": with_claims(aud=["lorebus-gateway", "somebody-else"]),
    "a token without `aud`": with_claims(aud=None),
    "a token of another `iss`": with_claims(iss="somebody-else"),
    "a token without `iss`": with_claims(iss=None),
    "a token without `exp`": with_claims(exp=None),
    "a token without `iat`": with_claims(iat=None),
    "a token without `sub`": with_claims(sub=None),
    "a token without `org`": with_claims(org=None),
    "a token without `cfg`": with_claims(cfg=None),
    "a token that expired 11 seconds ago": expired,
    "a token minted in five minutes": from_the_future,
    "a token with an unknown `kid`": with_head(kid="00000000"),
    "a token with a path as its `kid`": with_head(kid="../../../../dev/null"),
    "a token without a `kid`": with_head(kid=None),
    "a token altered to another organization and its config": altered,
    "a token without its last character": truncated_token,
    "a token whose session has ended": of_an_ended_session,
    "an API key as a token": the_api_key,
}


async def revoked(stage: Stage) -> str:
    gateway = stage.gateway
    plain = await create_key(gateway.database, gateway.organization_uuid, name="second")
    assert (await gateway.ask("GET", "/api/workflows", key=plain)).status_code == 200
    async with gateway.database.begin() as connection:
        second = (await keys.list_keys(connection, gateway.organization_uuid))[-1]
        await keys.revoke(connection, organization_uuid=gateway.organization_uuid, key_id=second.id)

    async def is_revoked() -> bool:
        return (await gateway.ask("GET", "/api/workflows", key=plain)).status_code == 401

    await gateway.until(is_revoked)
    return plain


async def truncated_key(stage: Stage) -> str:
    return stage.gateway.api_key[:-1]


async def key_in_upper_case(stage: Stage) -> str:
    return stage.gateway.api_key.upper()


async def prefix_of_the_key(stage: Stage) -> str:
    return stage.gateway.api_key[:12]


async def hash_of_the_key(stage: Stage) -> str:
    (row,) = await stage.gateway.rows("SELECT key_hash FROM lorebus.api_keys WHERE name = 'test'")
    return bytes(row["key_hash"]).hex()


async def the_token(stage: Stage) -> str:
    return stage.session.token


KEYS: Final[dict[str, Forge]] = {
    "a revoked key": revoked,
    "a key without its last character": truncated_key,
    "a key in upper case": key_in_upper_case,
    "the prefix of a key, which is shown": prefix_of_the_key,
    "the hash of a key, which is kept": hash_of_the_key,
    "a token as an API key": the_token,
}


async def another_sessions_token(stage: Stage) -> list[tuple[str, str, object]]:
    other = await stage.gateway.session(stage.config, {"kind": "end_user", "ref": "bob"})
    load, save = stage.paths()
    return [(f"Agent {other.token}", load, {}), (f"Agent {other.token}", save, {"content": "x"})]


async def another_organizations_key(stage: Stage) -> list[tuple[str, str, object]]:
    ours = {"organization_uuid": str(stage.gateway.organization_uuid), "agent_config_uuid": str(stage.config)}
    return [(f"Bearer {stage.other_key}", *start) for start in starts(ours, stage.session.uuid)]


async def another_organizations_config(stage: Stage) -> list[tuple[str, str, object]]:
    theirs = {
        "organization_uuid": str(stage.other_organization),
        "agent_config_uuid": str(stage.other_config),
    }
    return [(f"Bearer {stage.gateway.api_key}", *start) for start in starts(theirs, stage.session.uuid)]


def starts(scope: dict[str, str], session: UUID) -> list[tuple[str, object]]:
    of_session = scope | {"session_uuid": str(session)}
    inputs = {
        "agents.memory-load": of_session,
        "agents.memory-save": of_session | {"entries": [{"text": "x"}]},
        "agents.memory-distill": of_session,
        "agents.memory-prune": scope,
    }
    return [
        ("/api/workflows/start", {"workflow_type": kind, "initial_data": data})
        for kind, data in inputs.items()
    ]


OF_OTHERS: Final[dict[str, Callable[[Stage], Awaitable[list[tuple[str, str, object]]]]]] = {
    "another session's token": another_sessions_token,
    "another organization's key, for our config": another_organizations_key,
    "our key, for another organization's config": another_organizations_config,
}


async def nothing_was_saved(stage: Stage) -> bool:
    rows = await stage.gateway.rows("SELECT id FROM lorebus.outbox WHERE topic LIKE 'memory.%'")
    runs = await stage.gateway.rows(
        "SELECT id FROM lorebus.workflow_runs WHERE type <> 'agents.memory-distill'"
    )
    return not rows and not runs


async def test_what_is_refused_here_would_be_let_in_if_it_were_sound(stage: Stage) -> None:
    load, _ = stage.paths()

    by_token = await stage.gateway.ask("POST", load, token=signed(stage.payload()), json={})
    by_key = await stage.gateway.ask("GET", "/api/workflows")

    assert (by_token.json()["memory"], by_key.status_code) == (CANARY, 200)


@pytest.mark.parametrize("tried", TOKENS)
async def test_a_forged_or_spent_token_gets_one_constant_answer(stage: Stage, tried: str) -> None:
    gateway = stage.gateway
    load, save = stage.paths()
    token = await TOKENS[tried](stage)

    refused = [
        await gateway.ask("POST", load, token=token, json={}),
        await gateway.ask("POST", save, token=token, json={"content": "x"}),
        await gateway.ask("GET", f"/api/workflows/{uuid4()}", token=token),
    ]
    async with over_http(gateway.url, token=token) as client:
        tools = [
            await refusal(client, "recall"),
            await refusal(client, "remember", content="x"),
            await refusal(client, "whoami"),
        ]

    assert [(answer.status_code, answer.content) for answer in refused] == [(401, BODIES[401])] * 3
    assert {answer.headers["www-authenticate"] for answer in refused} == {"Agent, Bearer"}
    assert tools == [json.loads(BODIES[401])] * 3
    assert await nothing_was_saved(stage)


@pytest.mark.parametrize("tried", KEYS)
async def test_a_forged_or_spent_key_gets_one_constant_answer(stage: Stage, tried: str) -> None:
    gateway = stage.gateway
    key = await KEYS[tried](stage)
    memory = f"/api/app/agents/memory?agent_config_uuid={stage.config}"

    refused = [
        await gateway.ask("GET", memory, key=key),
        await gateway.ask(
            "POST", "/api/app/organization/keys", key=key, json={"name": "x", "scopes": ["admin"]}
        ),
        await gateway.ask("GET", f"/api/workflows/{uuid4()}", key=key),
    ]
    async with over_http(gateway.url, key=key) as client:
        tools = [await refusal(client, "list_workflows"), await refusal(client, "whoami")]

    assert [(answer.status_code, answer.content) for answer in refused] == [(401, BODIES[401])] * 3
    assert tools == [json.loads(BODIES[401])] * 2


@pytest.mark.parametrize("tried", OF_OTHERS)
async def test_sound_credentials_for_somebody_elses_get_one_constant_answer(stage: Stage, tried: str) -> None:
    gateway = stage.gateway
    asked = await OF_OTHERS[tried](stage)

    refused = [
        await gateway.client.post(path, headers={"authorization": credentials}, json=body)
        for credentials, path, body in asked
    ]
    tools = []
    for credentials, path, body in asked:
        if path == "/api/workflows/start" and isinstance(body, dict):
            async with over_http(gateway.url, key=credentials.removeprefix("Bearer ")) as client:
                tools.append(await refusal(client, "start_workflow", **body))

    assert [(answer.status_code, answer.content) for answer in refused] == [(403, BODIES[403])] * len(asked)
    assert all(told == json.loads(BODIES[403]) for told in tools)
    assert await nothing_was_saved(stage)


def test_the_report_tells_every_forgery_and_its_answer() -> None:
    section = REPORT.read_text(encoding="utf-8").partition("\n## Forgery\n")[2].partition("\n## ")[0]
    told = dict(re.findall(r"^\| (an? .+|the .+|our .+|another .+) \| (\d+) \|$", section, re.MULTILINE))

    assert told == dict.fromkeys((*TOKENS, *KEYS), "401") | dict.fromkeys(OF_OTHERS, "403")
