"""The ids of runs: made so that the gateway knows its own again before any row of theirs exists.

A save that Kafka accepted has no row until its consumer has come to it. Its id says by itself that it was
given out, for which organization and as what, so its status is told truthfully and a made-up id is a 404.

The rule that must not break: a session's distill has one id, however often and by whomever it is asked for.
"""

import hmac
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID, uuid5

from lorebus_contracts.workflows import WorkflowType

PENDING_AT_MOST: Final = timedelta(days=7)
"""How long an id without a row is believed: as long as Kafka keeps the record that makes the row."""

# A UUIDv8 (RFC 9562 section 5.8), from the left: 48 bits of Unix milliseconds, 4 of version, 12 random, 2 of
# variant, 30 random, 32 of a tag. The 42 random bits keep ids of one millisecond apart; the tag alone is the
# same for all ids of an organization and type unless time and random bits go into it, and so they do.
_TIME_SHIFT: Final = 80
_HIGH_RANDOM_SHIFT: Final = 64
_LOW_RANDOM_SHIFT: Final = 32
_VERSION_AND_VARIANT: Final = (8 << 76) | (2 << 62)
_VERSION_AND_VARIANT_MASK: Final = (15 << 76) | (3 << 62)
_TAG_MASK: Final = (1 << 32) - 1
_TAG_BYTES: Final = 4
_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Gateways are not at the same millisecond, and one reads what another has just made.
_CLOCK_SKEW: Final = timedelta(minutes=1)
_DISTILL_RUN: Final = "distill-run:v1"
_DISTILL_SAVE: Final = "distill:v1"


@dataclass(frozen=True, slots=True)
class RecognisedRun:
    """What an id says about its run."""

    workflow_type: WorkflowType
    made_at: datetime


class RunIds:
    """Makes run ids and knows them again; every gateway is given the same secrets."""

    def __init__(self, token_secrets: Sequence[str]) -> None:
        """Derive keys of their own from the session tokens' secrets; the first one makes, all recognise."""
        if not token_secrets:
            raise ValueError("at least one secret is needed to make run ids")
        self._keys = tuple(_derived(secret) for secret in token_secrets)

    def make(self, organization_uuid: UUID, workflow_type: WorkflowType, *, now: datetime) -> UUID:
        """A new id, ordered by time to the millisecond."""
        random = secrets.randbits(42)
        untagged = (
            _milliseconds(now) << _TIME_SHIFT
            | (random >> 30) << _HIGH_RANDOM_SHIFT
            | (random & ((1 << 30) - 1)) << _LOW_RANDOM_SHIFT
            | _VERSION_AND_VARIANT
        )
        return UUID(int=untagged | _tag(self._keys[0], untagged, organization_uuid, workflow_type))

    def recognise(
        self, run_id: UUID, organization_uuid: UUID, *, among: Iterable[WorkflowType], now: datetime
    ) -> RecognisedRun | None:
        """What the id was made for if it was made here for this organization, and not too long ago."""
        untagged = run_id.int & ~_TAG_MASK
        if untagged & _VERSION_AND_VARIANT_MASK != _VERSION_AND_VARIANT:
            return None
        made_at_ms = untagged >> _TIME_SHIFT
        if not 0 <= _milliseconds(now + _CLOCK_SKEW) - made_at_ms <= PENDING_AT_MOST // _MILLISECOND:
            return None
        made_at = _moment(made_at_ms)
        for workflow_type in among:
            if self._is_tagged(run_id, untagged, organization_uuid, workflow_type):
                return RecognisedRun(workflow_type, made_at)
        return None

    def _is_tagged(self, run_id: UUID, untagged: int, organization_uuid: UUID, kind: WorkflowType) -> bool:
        found = run_id.int & _TAG_MASK
        return any(_tag(key, untagged, organization_uuid, kind) == found for key in self._keys)


def distill_run_id(session_uuid: UUID) -> UUID:
    """The id of the one distill run of a session."""
    return uuid5(session_uuid, _DISTILL_RUN)


def distill_save_id(session_uuid: UUID) -> UUID:
    """The id of the save run, and event, that the distill of a session starts (ARCHITECTURE.md, Delivery)."""
    return uuid5(session_uuid, _DISTILL_SAVE)


def run_id_of_request(organization_uuid: UUID, workflow_type: WorkflowType, digest: bytes) -> UUID:
    """The id of the run that a request with an `Idempotency-Key` starts: the same for each repeat of it.

    It carries no time and is not recognised before its run has a row (`docs/architecture/http.md`).
    """
    return uuid5(organization_uuid, f"{workflow_type}:{digest.hex()}")


def to_milliseconds(moment: datetime) -> datetime:
    """The moment as an id that is made at it tells it, in UTC: what is told of a run is then the same with a row."""
    return _moment(_milliseconds(moment))


def _moment(milliseconds: int) -> datetime:
    return _EPOCH + milliseconds * _MILLISECOND


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def _derived(secret: str) -> bytes:
    return hmac.digest(secret.encode(), b"lorebus run ids", "sha256")


def _tag(key: bytes, untagged: int, organization_uuid: UUID, workflow_type: WorkflowType) -> int:
    message = untagged.to_bytes(16, "big") + organization_uuid.bytes + workflow_type.encode()
    return int.from_bytes(hmac.digest(key, message, "sha256")[:_TAG_BYTES], "big")
