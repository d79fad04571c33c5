"""Recalls and their receipts."""

from uuid import UUID

from lorebus_domain.visibility import MemoryScope
from lorebus_store import memories, recalls, sessions
from lorebus_store.recalls import EntryColumns, HandedOut, Receipt, ReceiptEntry, RecordedRecall
from tests.integration.store.builders import (
    CONFIG,
    NOON,
    ORGANIZATION,
    OTHER_ORGANIZATION,
    SESSION,
    StoreDatabase,
    folded,
    save,
    value,
)

RECALL, PACK = UUID(int=1), UUID(int=2)


def recall(
    *entries: HandedOut, recall_id: UUID = RECALL, pack_id: UUID | None = PACK, passed_over: str = "[]"
) -> RecordedRecall:
    return RecordedRecall(
        organization_uuid=ORGANIZATION,
        recall_id=recall_id,
        pack_id=pack_id,
        session_uuid=SESSION,
        agent_config_uuid=CONFIG,
        caller_kind="actor",
        principal_ref="alice",
        requested_strategy="pack",
        strategy="pack",
        cue="deploy",
        top_k=10,
        budget_used_chars=120,
        occurred_at=NOON,
        entries=EntryColumns.of(entries),
        passed_over=passed_over,
    )


async def test_a_receipt_shows_everything_even_of_entries_that_are_gone(
    database: StoreDatabase, alice: MemoryScope
) -> None:
    gone = UUID(int=9)
    async with database.begin() as conn:
        (saved,) = await save(conn, folded(alice, "Use UTC"))
        handed_out = (
            HandedOut(gone, rank=2, importance=0.4),
            HandedOut(saved.memory_id, rank=1, importance=0.5, score=0.7, relevance=0.6, recency=1.0),
        )
        recorded = await recalls.record(conn, [recall(*handed_out, passed_over='[{"reason": "duplicate"}]')])
        await sessions.apply_ratings(
            conn, [sessions.SessionRating(ORGANIZATION, SESSION, CONFIG, 0.9, NOON, UUID(int=5))]
        )
        by_recall = await recalls.receipt(conn, ORGANIZATION, RECALL)
        by_pack = await recalls.receipt(conn, ORGANIZATION, PACK)
        foreign = await recalls.receipt(conn, OTHER_ORGANIZATION, RECALL)
    assert recorded == {RECALL}
    assert foreign is None
    assert (
        by_recall
        == by_pack
        == Receipt(
            organization_uuid=ORGANIZATION,
            recall_id=RECALL,
            pack_id=PACK,
            session_uuid=SESSION,
            agent_config_uuid=CONFIG,
            caller_kind="actor",
            principal_ref="alice",
            requested_strategy="pack",
            strategy="pack",
            cue="deploy",
            top_k=10,
            budget_used_chars=120,
            occurred_at=NOON,
            passed_over=[{"reason": "duplicate"}],
            outcome=None,
            ended_at=None,
            ended_event_id=None,
            quality_score=0.9,
            rated_at=NOON,
            rated_event_id=UUID(int=5),
            entries=(
                ReceiptEntry(saved.memory_id, 1, 0.7, 0.6, 0.5, 1.0, "Use UTC"),
                ReceiptEntry(gone, 2, None, None, 0.4, None, None),
            ),
        )
    )


async def test_a_recall_is_recorded_once_and_whole(database: StoreDatabase) -> None:
    first = recall(HandedOut(UUID(int=7), rank=1, importance=0.5))
    other = recall(recall_id=UUID(int=3), pack_id=None)
    changed = recall(HandedOut(UUID(int=8), rank=1, importance=0.5))
    async with database.begin() as conn:
        assert await recalls.record(conn, [first]) == {RECALL}
        assert await recalls.record(conn, [other, changed]) == {UUID(int=3)}
        assert await recalls.record(conn, []) == set()
        receipt = await recalls.receipt(conn, ORGANIZATION, RECALL)
        empty = await recalls.receipt(conn, ORGANIZATION, UUID(int=3))
        counts = await value(conn, "SELECT array_agg(entry_count ORDER BY recall_id) FROM lorebus.recalls")
    assert receipt is not None
    assert [entry.memory_id for entry in receipt.entries] == [UUID(int=7)]
    assert empty is not None
    assert empty.entries == ()
    assert counts == [1, 0]


async def test_a_text_that_was_deleted_is_not_in_the_receipt_any_more(
    database: StoreDatabase, alice: MemoryScope
) -> None:
    async with database.begin() as conn:
        (saved,) = await save(conn, folded(alice, "a secret"))
        await recalls.record(conn, [recall(HandedOut(saved.memory_id, rank=1, importance=0.5))])
        await memories.delete_entry(conn, ORGANIZATION, saved.memory_id)
        receipt = await recalls.receipt(conn, ORGANIZATION, RECALL)
    assert receipt is not None
    assert receipt.entries == (ReceiptEntry(saved.memory_id, 1, None, None, 0.5, None, None),)
