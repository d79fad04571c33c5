"""What stands behind an entry: kept apart by kind, gone with the entry."""

from typing import Final
from uuid import UUID, uuid4

from lorebus_domain.evidence import EvidenceKind
from lorebus_domain.visibility import MemoryScope
from lorebus_store import evidence, memories, recalls
from lorebus_store.database import Connection
from lorebus_store.evidence import NewEvidence
from lorebus_store.memories import EntrySource
from lorebus_store.recalls import EntryColumns, HandedOut, RecordedRecall
from tests.integration.store.builders import (
    CONFIG,
    NOON,
    ORGANIZATION,
    OTHER_ORGANIZATION,
    PAIR,
    StoreDatabase,
    folded,
    save,
    value,
)

SESSION: Final = UUID("00000000-0000-0000-0000-0000000000e0")


async def saved(conn: Connection, scope: MemoryScope, text: str, *, echoes: int = 0) -> UUID:
    [row] = await save(conn, folded(scope, text), source=EntrySource("distill", echoes=echoes))
    return row.memory_id


async def recall(conn: Connection, *memory_ids: UUID, session_uuid: UUID = SESSION) -> None:
    await recalls.record(
        conn,
        [
            RecordedRecall(
                organization_uuid=ORGANIZATION,
                recall_id=uuid4(),
                pack_id=None,
                session_uuid=session_uuid,
                agent_config_uuid=CONFIG,
                caller_kind="actor",
                principal_ref="alice",
                requested_strategy="last_k",
                strategy="last_k",
                cue="",
                top_k=10,
                budget_used_chars=0,
                occurred_at=NOON,
                entries=EntryColumns.of(
                    HandedOut(memory_id, rank, 0.5) for rank, memory_id in enumerate(memory_ids, start=1)
                ),
            )
        ],
    )


def own(memory_id: UUID, event_id: UUID, kind: EvidenceKind = EvidenceKind.OWN) -> NewEvidence:
    return NewEvidence(ORGANIZATION, memory_id, event_id, SESSION, kind)


async def test_what_a_session_recalled_is_known_by_its_fingerprints_whatever_the_scope(
    database: StoreDatabase, alice: MemoryScope, shared: MemoryScope
) -> None:
    async with database.begin() as conn:
        mine, ours = await saved(conn, alice, "mine"), await saved(conn, shared, "ours")
        await saved(conn, alice, "never recalled")
        await recall(conn, mine)
        await recall(conn, mine, ours)
        await recall(conn, ours, session_uuid=uuid4())
        found = await evidence.recalled_fingerprints(
            conn, [(ORGANIZATION, SESSION), (OTHER_ORGANIZATION, SESSION), (ORGANIZATION, uuid4())]
        )

    assert found == {
        (ORGANIZATION, SESSION): {row.fingerprint for text in ("mine", "ours") for row in folded(alice, text)}
    }


async def test_an_entry_tells_its_evidence_newest_first_each_once(
    database: StoreDatabase, alice: MemoryScope
) -> None:
    first, second = uuid4(), uuid4()
    async with database.begin() as conn:
        entry = await saved(conn, alice, "mine")
        await evidence.record(conn, [own(entry, first)])
    async with database.begin() as conn:
        await evidence.record(conn, [own(entry, second, EvidenceKind.ECHO), own(entry, first)])
        told = await evidence.of_entry(conn, ORGANIZATION, entry, limit=10)
        newest = await evidence.of_entry(conn, ORGANIZATION, entry, limit=1)
        others = await evidence.of_entry(conn, OTHER_ORGANIZATION, entry, limit=10)

    assert [(row.event_id, row.kind) for row in told] == [
        (second, EvidenceKind.ECHO),
        (first, EvidenceKind.OWN),
    ]
    assert newest == told[:1]
    assert others == ()


async def test_echoes_are_counted_beside_the_reinforcements(
    database: StoreDatabase, alice: MemoryScope
) -> None:
    async with database.begin() as conn:
        await saved(conn, alice, "mine")
        await saved(conn, alice, "mine", echoes=1)
        entry = await memories.get_entry(conn, ORGANIZATION, await saved(conn, alice, "mine"))

    assert entry is not None
    assert (entry.reinforcement_count, entry.echo_count) == (2, 1)


async def test_evidence_goes_with_its_entry(database: StoreDatabase, alice: MemoryScope) -> None:
    async with database.begin() as conn:
        deleted, pruned = await saved(conn, alice, "deleted"), await saved(conn, alice, "pruned")
        await evidence.record(conn, [own(deleted, uuid4()), own(pruned, uuid4())])

    async with database.begin() as conn:
        await memories.delete_entry(conn, ORGANIZATION, deleted)
        await memories.prune_lowest(conn, PAIR, keep=0, chunk=10)

    async with database.read() as conn:
        assert await value(conn, "SELECT count(*) FROM lorebus.memory_evidence") == 0
