"""Importing a file of entries: checked from its first line to its last, then added all at once.

The rule that must not break: a file is added wholly or not at all, and a second time it adds nothing.
"""

import asyncio
import json
import secrets
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Final
from uuid import UUID, uuid4

from lorebus_contracts.events import ChangeKind, PruneRequested
from lorebus_contracts.http_memory import ImportAnswer
from lorebus_contracts.memory_file import FileEntry
from lorebus_domain.saving import Entry, KeptEntry, plan_save
from lorebus_domain.terms import packed
from lorebus_gateway.known_scopes import require_agent_config
from lorebus_gateway.memory_files import check_file, entries_of
from lorebus_gateway.uploads import Upload
from lorebus_kit.emitting import memory_changed, outbox_row
from lorebus_store import memories, moving, outbox
from lorebus_store.acting import Tenants
from lorebus_store.database import Connection, Database
from lorebus_store.erasures import Subject
from lorebus_store.locks import ConfigPair
from lorebus_store.moving import Added, StagedEntry

LINES_A_STEP: Final = 200
IMPORTS_AT_ONCE: Final = 2
"""In one process: each holds a connection to the database while it adds."""

# A UUIDv7 (RFC 9562 section 5.7) whose bits behind the time are a number of the line, so that ids ascend with it.
_TIME_SHIFT: Final = 80
_VERSION_AND_VARIANT: Final = (7 << 76) | (2 << 62)
_LOW_LINE_BITS: Final = 30
_RANDOM_BITS: Final = 32


class Importing:
    """Reads files."""

    def __init__(self, database: Database, *, wake_relay: Callable[[], None]) -> None:
        self._database = database
        self._wake_relay = wake_relay
        self._adding = asyncio.Semaphore(IMPORTS_AT_ONCE)

    async def add(self, organization_uuid: UUID, agent_config_uuid: UUID, upload: Upload) -> ImportAnswer:
        """Add the file's entries to the agent config.

        Raises:
            NotFoundError: the organization has no such config.
            WireError: the file is not sound; its faults name their lines, and nothing was added.
            TransientError: the database is away, and nothing was added.
        """
        pair = (organization_uuid, agent_config_uuid)
        async with self._database.read(Tenants.of(organization_uuid)) as connection:
            await require_agent_config(connection, *pair)
        total = await _checked(upload)
        async with self._adding, self._database.begin(Tenants.of(organization_uuid)) as connection:
            staged = await _stage(connection, organization_uuid, upload)
            await memories.share_configs(connection, [pair])
            added = await moving.add_staged(connection, pair)
            await _tell(connection, pair, added)
        self._wake_relay()
        imported = len(added.memory) + len(added.held)
        return ImportAnswer(
            entries=total,
            imported=imported,
            present=staged - added.erased - imported,
            erased=added.erased,
            skipped=total - staged,
        )


async def _checked(upload: Upload) -> int:
    """How many entries the file has; between steps others are served."""
    lines = check_file(upload.file)
    total = 0
    while step := await asyncio.to_thread(lambda: list(islice(lines, LINES_A_STEP))):
        total = step[-1]
    return total


async def _stage(connection: Connection, organization_uuid: UUID, upload: Upload) -> int:
    """Put aside what a save would keep; how many entries that is."""
    await moving.begin_import(connection)
    kept = _kept(organization_uuid, upload)
    staged = 0
    while step := await asyncio.to_thread(lambda: list(islice(kept, LINES_A_STEP))):
        await moving.stage(connection, step)
        staged += len(step)
    return staged


def _kept(organization_uuid: UUID, upload: Upload) -> Iterator[StagedEntry]:
    now = datetime.now(UTC)
    for number, entry in enumerate(entries_of(upload.file)):
        for kept in plan_save([Entry(entry.text, entry.importance)]).kept:
            yield _staged(organization_uuid, _id_of_line(number, now), entry, kept)


def _staged(organization_uuid: UUID, memory_id: UUID, entry: FileEntry, kept: KeptEntry) -> StagedEntry:
    principal, session = entry.principal_ref, entry.session_uuid
    return StagedEntry(
        id=memory_id,
        principal_ref=principal,
        fingerprint=kept.fingerprint,
        text=kept.text,
        importance=entry.importance,
        terms=" ".join(kept.terms),
        term_hashes=packed(kept.terms),
        reinforcement_count=entry.reinforcement_count,
        echo_count=entry.echo_count,
        access_count=entry.access_count,
        success_count=entry.success_count,
        failed_count=entry.failed_count,
        state=entry.state,
        quarantine_reason=entry.quarantine_reason,
        origin=entry.origin,
        session_uuid=session,
        provenance=None if entry.provenance is None else json.dumps(entry.provenance),
        created_at=entry.created_at,
        updated_at=entry.updated_at,
        last_accessed_at=entry.last_accessed_at,
        principal_hash=None if principal is None else Subject.principal(principal).hashed(organization_uuid),
        session_hash=None if session is None else Subject.session(session).hashed(organization_uuid),
    )


def _id_of_line(number: int, now: datetime) -> UUID:
    """An id that is greater than those of the lines before."""
    milliseconds = int(now.timestamp() * 1000)
    high, low = number >> _LOW_LINE_BITS, number & ((1 << _LOW_LINE_BITS) - 1)
    return UUID(
        int=milliseconds << _TIME_SHIFT
        | high << 64
        | low << _RANDOM_BITS
        | secrets.randbits(_RANDOM_BITS)
        | _VERSION_AND_VARIANT
    )


async def _tell(connection: Connection, pair: ConfigPair, added: Added) -> None:
    """Count what is new, tell the live tail of it, and ask for a prune where it is too much."""
    saved = memory_changed(pair, ChangeKind.SAVED, dict.fromkeys(added.memory, 1))
    counters = await memories.add_to_counters(connection, {pair: len(added.memory)})
    prunes = [_prune(pair) for counter in counters if counter.entry_count > counter.max_entries]
    await outbox.add(connection, [outbox_row(event) for event in (*saved, *prunes)], notify=False)


def _prune(pair: ConfigPair) -> PruneRequested:
    return PruneRequested(
        event_id=uuid4(),
        occurred_at=datetime.now(UTC),
        organization_uuid=pair[0],
        agent_config_uuid=pair[1],
    )
