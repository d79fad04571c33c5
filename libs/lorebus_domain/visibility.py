"""Who sees whose memory.

The rule that must not break: every read and every write takes its scope from here, comparison is equality,
and whoever cannot be identified gets nothing (SPEC.md section 6).
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias, assert_never
from uuid import UUID

from lorebus_domain import policy

_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")


class CallerKind(StrEnum):
    """Who a session acts for (SPEC.md section 1)."""

    NONE = "none"
    END_USER = "end_user"
    ACTOR = "actor"


@dataclass(frozen=True, slots=True)
class NoCaller:
    """A session that acts for nobody in particular."""


@dataclass(frozen=True, slots=True)
class EndUser:
    """A session of an app's end user; `ref` is None when nobody could say who it is."""

    ref: str | None

    def __post_init__(self) -> None:
        if self.ref is not None and _is_blank(check_principal_ref(self.ref)):
            raise ValueError("an end user's reference is blank, which is no principal: pass None")


@dataclass(frozen=True, slots=True)
class Actor:
    """A session of a member of staff, who always has a reference."""

    ref: str

    def __post_init__(self) -> None:
        if _is_blank(check_principal_ref(self.ref)):
            raise ValueError("an actor needs a reference that is not blank")


Caller: TypeAlias = NoCaller | EndUser | Actor


@dataclass(frozen=True, slots=True)
class Scope:
    """Whom memory is read for: made from a verified token or a stored session, and given whole to every read."""

    organization_uuid: UUID
    agent_config_uuid: UUID
    caller: Caller


@dataclass(frozen=True, slots=True)
class ReadScope:
    """What a caller may read within its agent config: a principal's entries, the shared pool, or both."""

    principal_ref: str | None
    shared: bool


@dataclass(frozen=True, slots=True)
class Writable:
    """Where a caller's entries are written; None is the shared pool."""

    principal_ref: str | None


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """Where entries live; a fingerprint is an identity within one of these."""

    organization_uuid: UUID
    agent_config_uuid: UUID
    principal_ref: str | None

    def sort_key(self) -> tuple[bytes, bytes, bool, str]:
        """A total order over scopes, the shared pool of a config before its principals."""
        return (
            self.organization_uuid.bytes,
            self.agent_config_uuid.bytes,
            self.principal_ref is not None,
            self.principal_ref or "",
        )


def check_principal_ref(ref: str) -> str:
    """The reference exactly as it came, blank or not: whom it names is `resolve_caller`'s question.

    Raises:
        ValueError: it has U+0000, a lone surrogate or more than 512 characters.

    Source: SPEC.md section 3, step 1.
    """
    if len(ref) > policy.MAX_PRINCIPAL_REF_CHARS:
        raise ValueError(
            f"a principal reference has at most {policy.MAX_PRINCIPAL_REF_CHARS} characters, not {len(ref)}"
        )
    if _UNSTORABLE.search(ref):
        raise ValueError("a principal reference may hold neither U+0000 nor a lone surrogate")
    return ref


def resolve_caller(kind: CallerKind, ref: str | None) -> Caller:
    """The caller that a kind and a reference name; an empty or blank reference is no principal.

    Raises:
        ValueError: the reference is malformed (`check_principal_ref`), an actor has none, or one came with
            kind `none`.

    Source: SPEC.md section 6.
    """
    named = None if ref is None or _is_blank(check_principal_ref(ref)) else ref
    match kind:
        case CallerKind.NONE:
            if named is not None:
                raise ValueError("a caller of kind 'none' has no reference; leave it out or name the kind")
            return NoCaller()
        case CallerKind.END_USER:
            return EndUser(named)
        case CallerKind.ACTOR:
            if named is None:
                raise ValueError("a caller of kind 'actor' needs a reference that is not blank")
            return Actor(named)
        case _:
            assert_never(kind)


def read_scope(caller: Caller) -> ReadScope | None:
    """What the caller may read; None for an unidentified end user, who reads nothing.

    Source: SPEC.md section 6.
    """
    match caller:
        case NoCaller():
            return ReadScope(principal_ref=None, shared=True)
        case EndUser(ref=None):
            return None
        case EndUser(ref=ref):
            return ReadScope(principal_ref=ref, shared=False)
        case Actor(ref=ref):
            return ReadScope(principal_ref=ref, shared=True)
        case _:
            assert_never(caller)


def write_scope(caller: Caller) -> Writable | None:
    """Where the caller's entries go; None for an unidentified end user, for whom nothing is written.

    Source: SPEC.md section 6.
    """
    match caller:
        case NoCaller():
            return Writable(principal_ref=None)
        case EndUser(ref=None):
            return None
        case EndUser(ref=ref) | Actor(ref=ref):
            return Writable(principal_ref=ref)
        case _:
            assert_never(caller)


def can_see(caller: Caller, principal_ref: str | None) -> bool:
    """Whether the caller may read an entry of its agent config that belongs to `principal_ref`.

    Source: SPEC.md section 6.
    """
    scope = read_scope(caller)
    if scope is None:
        return False
    if principal_ref is None:
        return scope.shared
    return principal_ref == scope.principal_ref


def _is_blank(ref: str) -> bool:
    return not ref.strip()
