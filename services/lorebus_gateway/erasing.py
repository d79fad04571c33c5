"""Erasing a person or a session from an organization's memory, and the receipts of that.

The rule that must not break: an erasure is done wholly when it is answered, or not at all, and counts what was there.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from uuid6 import uuid7

from lorebus_contracts.events import ChangeKind, MemoryChanged
from lorebus_contracts.http_memory import EraseBody, ErasedCounts, ErasureReceipt
from lorebus_contracts.workflows import State
from lorebus_gateway.errors import NotFoundError
from lorebus_gateway.known_scopes import require_agent_config
from lorebus_kit.emitting import memory_changed, outbox_row
from lorebus_kit.topics import DEAD_LETTER_DAYS
from lorebus_store import erasing, erasures, locks, outbox
from lorebus_store.acting import Tenants
from lorebus_store.database import Database
from lorebus_store.erasing import GoneEntry, Wish
from lorebus_store.erasures import Erasure, Subject

BUS_KEEPS: Final = timedelta(days=DEAD_LETTER_DAYS)
"""The dead letters stay longest; a record that becomes one late is skipped as well when it is replayed."""


class Erasing:
    """Erases subjects and shows receipts."""

    def __init__(self, database: Database, *, wake_relay: Callable[[], None]) -> None:
        self._database = database
        self._wake_relay = wake_relay

    async def erase(
        self, organization_uuid: UUID, body: EraseBody, erasure_id: UUID | None
    ) -> ErasureReceipt:
        """Erase the subject; the receipt has `erasure_id`, or a new id.

        One that nobody has heard of is erased as well: what comes late of it is skipped from now on.

        Raises:
            NotFoundError: the organization has no such agent config.
            TransientError: the database is away, or so busy that nothing was erased.
        """
        wish = _wish(organization_uuid, body)
        async with self._database.begin(Tenants.of(organization_uuid)) as connection:
            if wish.agent_config_uuid is not None:
                await require_agent_config(connection, organization_uuid, wish.agent_config_uuid)
            await locks.lock_organization(connection, organization_uuid)
            known = (
                None if erasure_id is None else await erasures.get(connection, organization_uuid, erasure_id)
            )
            if known is not None:
                return _receipt(known)
            # Not before: what was kept until the lock was had is erased, and what comes after it is not.
            erased_at = datetime.now(UTC)
            gone, counts = await erasing.erase(connection, wish, at=erased_at)
            erasure = Erasure(
                organization_uuid=organization_uuid,
                id=erasure_id or uuid7(),
                subject_kind=wish.subject.kind,
                subject_hash=wish.subject.hashed(organization_uuid),
                agent_config_uuid=wish.agent_config_uuid,
                erased_at=erased_at,
                counts=counts,
            )
            await erasures.record(connection, erasure)
            changes = [outbox_row(change) for change in _changes(organization_uuid, gone)]
            await outbox.add(connection, changes, notify=False)
        self._wake_relay()
        return _receipt(erasure)

    async def receipt(self, organization_uuid: UUID, erasure_id: UUID) -> ErasureReceipt:
        """The receipt of an erasure.

        Raises:
            NotFoundError: the organization has no such erasure.
            TransientError: the database is away.
        """
        async with self._database.read(Tenants.of(organization_uuid)) as connection:
            erasure = await erasures.get(connection, organization_uuid, erasure_id)
        if erasure is None:
            raise NotFoundError
        return _receipt(erasure)


def _wish(organization_uuid: UUID, body: EraseBody) -> Wish:
    if body.principal_ref is not None:
        return Wish(organization_uuid, Subject.principal(body.principal_ref), body.agent_config_uuid)
    if body.session_uuid is None:
        raise AssertionError("a body names one of the two")
    return Wish(organization_uuid, Subject.session(body.session_uuid))


def _changes(organization_uuid: UUID, gone: Iterable[GoneEntry]) -> Iterator[MemoryChanged]:
    """What the live tail is told, per agent config."""
    by_config: dict[UUID, dict[UUID, int]] = {}
    for entry in gone:
        by_config.setdefault(entry.agent_config_uuid, {})[entry.id] = 1
    for config, times in by_config.items():
        yield from memory_changed((organization_uuid, config), ChangeKind.DELETED, times)


def _receipt(erasure: Erasure) -> ErasureReceipt:
    return ErasureReceipt(
        erasure_id=erasure.id,
        state_name=State.COMPLETED,
        is_terminal=True,
        subject=erasure.subject_kind,
        subject_hash=erasure.subject_hash.hex(),
        agent_config_uuid=erasure.agent_config_uuid,
        erased_at=erasure.erased_at,
        counts=ErasedCounts(**asdict(erasure.counts)),
        bus_keeps_until=erasure.erased_at + BUS_KEEPS,
    )
