"""Session tokens: what a runner shows to act for one session, and for nothing else.

The rule that must not break: organization, config, session and caller come from a verified token and never
from a body (SPEC.md section 6), and a token that is wrong in any way is refused in one and the same manner.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import jwt

from lorebus_contracts.events import CallerBody
from lorebus_domain.visibility import Caller, CallerKind, Scope, resolve_caller

ISSUER: Final = "lorebus"
AUDIENCE: Final = "lorebus-gateway"
HS256: Final = "HS256"
LEEWAY: Final = timedelta(seconds=10)
MIN_SECRET_CHARS: Final = 32
"""HS256 needs a secret at least as long as its digest (RFC 7518 section 3.2)."""

_MAX_REMEMBERED: Final = 10_000
_REQUIRED: Final = ("exp", "iat", "aud", "iss", "sub", "org", "cfg", "caller")


@dataclass(frozen=True, slots=True)
class SessionClaims:
    """What a token fixes: the session, what it belongs to, and who it acts for."""

    organization_uuid: UUID
    agent_config_uuid: UUID
    session_uuid: UUID
    caller: Caller

    @property
    def scope(self) -> Scope:
        """Whom memory is read for."""
        return Scope(self.organization_uuid, self.agent_config_uuid, self.caller)


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """A token that is ours: what it fixes, and when it was minted and expires, in seconds of Unix time."""

    claims: SessionClaims
    issued_at: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class _SigningKey:
    """A secret with the one algorithm that it signs by, which no token can choose for it."""

    secret: str
    algorithm: str = HS256


class InvalidTokenError(Exception):
    """The token is not one of ours, or no longer; the reason is for our log and never for the answer."""


class SessionTokens:
    """Mints and verifies session tokens with a list of secrets, so that a secret can be replaced.

    The first secret mints, all of them verify. A token names its secret in the `kid` header, and the secret says
    by which algorithm it is verified. How one is replaced: `docs/architecture/http.md`.
    """

    def __init__(
        self, secrets: Sequence[str], *, lifetime: timedelta, clock: Callable[[], float] = time.time
    ) -> None:
        """Take at least one secret of 32 characters or more.

        Raises:
            ValueError: there is no secret, or one is too short.
        """
        if not secrets:
            raise ValueError("at least one token secret is needed")
        if any(len(secret) < MIN_SECRET_CHARS for secret in secrets):
            raise ValueError(f"a token secret has at least {MIN_SECRET_CHARS} characters")
        self._keys = {key_id(secret): _SigningKey(secret) for secret in secrets}
        # A header is the same for all tokens of a key; only those of verified tokens are kept.
        self._keys_by_header: dict[str, _SigningKey] = {}
        self._verified: dict[str, VerifiedToken] = {}
        self._minting_key_id = key_id(secrets[0])
        self.lifetime = lifetime
        self._clock = clock

    def mint(self, claims: SessionClaims, *, now: datetime) -> tuple[str, datetime]:
        """A token for `claims` and the time it expires, in whole seconds."""
        issued_at = now.replace(microsecond=0)
        expires_at = issued_at + self.lifetime
        payload = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": str(claims.session_uuid),
            "org": str(claims.organization_uuid),
            "cfg": str(claims.agent_config_uuid),
            "caller": CallerBody.of(claims.caller).model_dump(mode="json"),
            "iat": int(issued_at.timestamp()),
            "exp": int(expires_at.timestamp()),
        }
        headers = {"kid": self._minting_key_id}
        key = self._keys[self._minting_key_id]
        return jwt.encode(payload, key.secret, algorithm=key.algorithm, headers=headers), expires_at

    def verify(self, token: str) -> VerifiedToken:
        """A token that is ours, unaltered and not expired (10 seconds of leeway).

        A runner shows its token with every call, so a verified one is remembered; that it has not expired is
        looked at each time.

        Raises:
            InvalidTokenError: anything else.
        """
        verified = self._verified.get(token)
        if verified is None:
            verified = self._decoded(token)
            if len(self._verified) >= _MAX_REMEMBERED:
                self._verified.clear()
            self._verified[token] = verified
        if self._clock() >= verified.expires_at + LEEWAY.total_seconds():
            raise InvalidTokenError("expired")
        return verified

    def _decoded(self, token: str) -> VerifiedToken:
        try:
            return _verified(self._decode(token))
        except (jwt.PyJWTError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            # Some of what PyJWT and UUID raise for odd input quotes it, so only the kind of error is kept.
            raise InvalidTokenError(type(error).__name__) from error

    def _decode(self, token: str) -> Mapping[str, Any]:
        header, _, _ = token.partition(".")
        key = self._keys_by_header.get(header) or self._keys[jwt.get_unverified_header(token)["kid"]]
        decoded: Mapping[str, Any] = jwt.decode(
            token,
            key.secret,
            algorithms=[key.algorithm],
            audience=AUDIENCE,
            issuer=ISSUER,
            leeway=LEEWAY,
            options={"require": list(_REQUIRED), "strict_aud": True, "verify_exp": False},
        )
        self._keys_by_header[header] = key
        return decoded


def key_id(secret: str) -> str:
    """The name of a secret in a token's `kid` header: eight hex digits that tell nothing about it."""
    return hashlib.sha256(b"lorebus token key id\0" + secret.encode()).hexdigest()[:8]


def _verified(payload: Mapping[str, Any]) -> VerifiedToken:
    # PyJWT takes "1700000000" for a time; a time that is text was not minted here.
    if type(payload["exp"]) is not int or type(payload["iat"]) is not int:
        raise TypeError("exp and iat are whole numbers")
    caller = payload["caller"]
    claims = SessionClaims(
        organization_uuid=UUID(payload["org"]),
        agent_config_uuid=UUID(payload["cfg"]),
        session_uuid=UUID(payload["sub"]),
        caller=resolve_caller(CallerKind(caller["kind"]), _ref(caller["ref"])),
    )
    return VerifiedToken(claims, issued_at=payload["iat"], expires_at=payload["exp"])


def _ref(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError("a caller's reference is text or null")
