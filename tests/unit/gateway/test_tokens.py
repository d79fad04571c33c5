"""Session tokens (SPEC.md section 8): what they fix, and everything that is refused."""

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import jwt
import pytest

from lorebus_domain.visibility import Actor, EndUser, NoCaller
from lorebus_kit.tokens import InvalidTokenError, SessionClaims, SessionTokens, key_id

ORGANIZATION = UUID("00000000-0000-4000-8000-0000000000a1")
CONFIG = UUID("00000000-0000-4000-8000-0000000000c1")
SESSION = UUID("00000000-0000-4000-8000-0000000000e1")
SECRET = "first-secret-of-the-tests-0123456789-0123456789-0123456789"
OTHER_SECRET = "other-secret-of-the-tests-0123456789"
CLAIMS = SessionClaims(ORGANIZATION, CONFIG, SESSION, EndUser("bob"))


def tokens(*secrets: str) -> SessionTokens:
    return SessionTokens(secrets or (SECRET,), lifetime=timedelta(hours=1))


def payload() -> dict[str, Any]:
    now = int(datetime.now(UTC).timestamp())
    return {
        "iss": "lorebus",
        "aud": "lorebus-gateway",
        "sub": str(SESSION),
        "org": str(ORGANIZATION),
        "cfg": str(CONFIG),
        "caller": {"kind": "end_user", "ref": "bob"},
        "iat": now,
        "exp": now + 3600,
    }


def signed(claims: object, *, kid: object = None, secret: str = SECRET) -> str:
    """A token as anybody who has the secret could make it, sound or not."""
    head = {"alg": "HS256", "typ": "JWT", "kid": key_id(SECRET) if kid is None else kid}
    signing_input = ".".join(_b64(json.dumps(part).encode()) for part in (head, claims))
    signature = jwt.get_algorithm_by_name("HS256").sign(signing_input.encode(), secret.encode())
    return f"{signing_input}.{_b64(signature)}"


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@pytest.mark.parametrize("caller", [NoCaller(), EndUser(None), EndUser(" bob "), Actor("ann")])
def test_a_minted_token_gives_back_its_claims(caller: NoCaller | EndUser | Actor) -> None:
    claims = SessionClaims(ORGANIZATION, CONFIG, SESSION, caller)

    token, _ = tokens().mint(claims, now=datetime.now(UTC))

    assert tokens().verify(token).claims == claims


def test_a_token_signed_by_hand_is_a_sound_base_for_the_refusals() -> None:
    assert tokens().verify(signed(payload())).claims == CLAIMS


def test_a_token_lives_as_long_as_its_lifetime_in_whole_seconds() -> None:
    _, expires_at = tokens().mint(CLAIMS, now=datetime(2026, 5, 1, 12, 0, 0, 900_000, tzinfo=UTC))

    assert expires_at == datetime(2026, 5, 1, 13, 0, 0, tzinfo=UTC)


def test_a_blank_end_user_in_a_token_is_unidentified() -> None:
    token = signed(payload() | {"caller": {"kind": "end_user", "ref": "   "}})

    assert tokens().verify(token).claims.caller == EndUser(None)


def test_an_old_secret_still_verifies_after_a_new_one_came_in_front() -> None:
    token, _ = tokens(SECRET).mint(CLAIMS, now=datetime.now(UTC))

    assert tokens(OTHER_SECRET, SECRET).verify(token).claims == CLAIMS


def test_a_secret_that_was_taken_away_no_longer_verifies() -> None:
    token, _ = tokens(SECRET).mint(CLAIMS, now=datetime.now(UTC))

    with pytest.raises(InvalidTokenError):
        tokens(OTHER_SECRET).verify(token)


def test_a_token_that_expired_within_the_leeway_is_taken() -> None:
    now = int(datetime.now(UTC).timestamp())

    assert tokens().verify(signed(payload() | {"exp": now - 3})).claims == CLAIMS


def test_a_remembered_token_expires_all_the_same() -> None:
    now = datetime.now(UTC).timestamp()
    clock = iter((now, now + 3600 + 9, now + 3600 + 11))
    verifying = SessionTokens((SECRET,), lifetime=timedelta(hours=1), clock=lambda: next(clock))
    token = signed(payload())
    assert verifying.verify(token).claims == CLAIMS
    assert verifying.verify(token).claims == CLAIMS

    with pytest.raises(InvalidTokenError):
        verifying.verify(token)


def without(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda claims: {key: value for key, value in claims.items() if key != name}


@pytest.mark.parametrize(
    "spoil",
    [
        *(without(name) for name in ("exp", "iat", "aud", "iss", "sub", "org", "cfg", "caller")),
        lambda claims: claims | {"exp": claims["iat"] - 60},
        lambda claims: claims | {"exp": str(claims["exp"])},
        lambda claims: claims | {"exp": "soon"},
        lambda claims: claims | {"exp": float(claims["exp"])},
        lambda claims: claims | {"exp": True},
        lambda claims: claims | {"exp": [claims["exp"]]},
        lambda claims: claims | {"exp": float("inf")},
        lambda claims: claims | {"iat": claims["iat"] + 3000},
        lambda claims: claims | {"iat": str(claims["iat"])},
        lambda claims: claims | {"nbf": claims["iat"] + 3000},
        lambda claims: claims | {"aud": "somebody-else"},
        lambda claims: claims | {"aud": ["lorebus-gateway", "somebody-else"]},
        lambda claims: claims | {"iss": "somebody-else"},
        lambda claims: claims | {"sub": 7},
        lambda claims: claims | {"sub": "session-1"},
        lambda claims: claims | {"org": 7},
        lambda claims: claims | {"org": None},
        lambda claims: claims | {"cfg": ["x"]},
        lambda claims: claims | {"caller": "bob"},
        lambda claims: claims | {"caller": None},
        lambda claims: claims | {"caller": {"kind": "end_user"}},
        lambda claims: claims | {"caller": {"kind": "root", "ref": "bob"}},
        lambda claims: claims | {"caller": {"kind": "end_user", "ref": 7}},
        lambda claims: claims | {"caller": {"kind": "none", "ref": "bob"}},
        lambda claims: claims | {"caller": {"kind": "actor", "ref": None}},
        lambda claims: claims | {"caller": {"kind": "actor", "ref": " "}},
        lambda claims: claims | {"caller": {"kind": "end_user", "ref": "a\0b"}},
        lambda claims: claims | {"caller": {"kind": "end_user", "ref": "\ud83d"}},
        lambda claims: claims | {"caller": {"kind": "end_user", "ref": "b" * 513}},
        lambda _claims: [],
        lambda _claims: "text",
    ],
)
def test_a_signed_token_with_unsound_claims_is_refused(spoil: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(InvalidTokenError):
        tokens().verify(signed(spoil(payload())))


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "a.b.c",
        "é.é.é",
        "." * 3000,
        _b64(b"[" * 20_000) + ".e30.e30",
        signed(payload(), secret=OTHER_SECRET),
        signed(payload(), kid="no-such-key"),
        signed(payload(), kid=7),
        signed(payload(), kid=["x"]),
        jwt.encode(payload(), SECRET, algorithm="HS256"),
        jwt.encode(payload(), SECRET, algorithm="HS384", headers={"kid": key_id(SECRET)}),
        jwt.encode(payload(), "", algorithm="none", headers={"kid": key_id(SECRET)}),
        signed(payload()) + "x",
        signed(payload())[:-8] + "AAAAAAAA",
    ],
)
def test_what_is_no_token_of_ours_is_refused(token: str) -> None:
    with pytest.raises(InvalidTokenError):
        tokens().verify(token)


@pytest.mark.parametrize("secrets", [(), ("short",), (SECRET, "short")])
def test_a_missing_or_short_secret_is_refused_at_once(secrets: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="secret"):
        SessionTokens(secrets, lifetime=timedelta(hours=1))
