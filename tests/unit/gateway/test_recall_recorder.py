"""Recording behind the answer: nothing is lost while somebody takes it, and loads do not wait."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID, uuid4

from lorebus_contracts.events import CallerBody, Event, RecallRecorded
from lorebus_domain.recall import Strategy
from lorebus_domain.visibility import NoCaller
from lorebus_gateway.answered_recalls import AnsweredRecall, Choice, HandedOut
from lorebus_gateway.recall_recorder import RecallRecorder
from lorebus_store.errors import TransientError


def a_recall(*, entries: int = 0) -> AnsweredRecall:
    head = RecallRecorded(
        event_id=uuid4(),
        occurred_at=datetime(2026, 5, 1, tzinfo=UTC),
        organization_uuid=uuid4(),
        agent_config_uuid=uuid4(),
        session_uuid=uuid4(),
        caller=CallerBody.of(NoCaller()),
        requested_strategy=Strategy.LAST_K,
        strategy=Strategy.LAST_K,
        top_k=10,
        budget_used_chars=0,
        entries=(),
    )
    return AnsweredRecall(head, Choice([HandedOut(uuid4(), 1, 0.5)] * entries, [], cue=""))


class Store:
    """Takes recalls, after so many refusals, while it is open."""

    def __init__(self, *, refusals: int = 0, opened: bool = True) -> None:
        self.taken: list[UUID] = []
        self.batches: list[int] = []
        self.refusals = refusals
        self.opened = asyncio.Event()
        if opened:
            self.opened.set()

    async def accept_all(
        self, events: Sequence[Event], encoded: Sequence[bytes], traceparents: Sequence[str | None]
    ) -> None:
        await self.opened.wait()
        if self.refusals:
            self.refusals -= 1
            raise TransientError("away")
        assert len(events) == len(encoded) == len(traceparents)
        self.taken += [event.event_id for event in events]
        self.batches.append(len(events))


async def test_what_is_queued_is_accepted_in_batches_of_at_most_fifty() -> None:
    store = Store(opened=False)
    recorder = RecallRecorder(store, queue_size=200)
    recalls = [a_recall() for _ in range(120)]
    for recall in recalls:
        await recorder.record(recall)
    running = asyncio.create_task(recorder.run(asyncio.Event()))

    store.opened.set()
    await recorder.drain(10.0)

    running.cancel()
    assert store.taken == [recall.head.event_id for recall in recalls]
    assert store.batches == [50, 50, 20]


async def test_what_waits_is_bounded_by_what_it_handed_out_as_well() -> None:
    store = Store(opened=False)
    recorder = RecallRecorder(store, queue_size=10)
    large = [a_recall(entries=25_000), a_recall(entries=25_000)]
    for recall in large:
        await recorder.record(recall)

    itself = asyncio.create_task(recorder.record(last := a_recall()))
    store.opened.set()
    await itself

    assert store.taken == [last.head.event_id]
    running = asyncio.create_task(recorder.run(asyncio.Event()))
    await recorder.drain(10.0)
    after = a_recall()
    await recorder.record(after)
    await recorder.drain(10.0)
    running.cancel()
    assert store.taken[1:] == [*(recall.head.event_id for recall in large), after.head.event_id]


async def test_a_load_does_not_wait_for_a_store_that_is_slow() -> None:
    store = Store(opened=False)
    recorder = RecallRecorder(store, queue_size=10)
    running = asyncio.create_task(recorder.run(asyncio.Event()))

    async with asyncio.timeout(5.0):
        for _ in range(10):
            await recorder.record(a_recall())

    assert store.taken == []
    running.cancel()


async def test_while_the_queue_is_full_a_load_records_its_own_recall() -> None:
    store = Store()
    recorder = RecallRecorder(store, queue_size=1)
    queued, beyond = a_recall(), a_recall()
    await recorder.record(queued)

    await recorder.record(beyond)

    assert store.taken == [beyond.head.event_id]


async def test_a_recall_that_is_refused_is_offered_again_until_it_is_taken() -> None:
    store = Store(refusals=2)
    recorder = RecallRecorder(store, queue_size=10)
    running = asyncio.create_task(recorder.run(asyncio.Event()))
    recall = a_recall()

    await recorder.record(recall)
    await recorder.drain(10.0)

    running.cancel()
    assert store.taken == [recall.head.event_id]
    assert store.refusals == 0


async def test_a_load_is_answered_though_nobody_takes_its_recall() -> None:
    recorder = RecallRecorder(Store(refusals=1), queue_size=1)
    await recorder.record(a_recall())

    await recorder.record(a_recall())


async def test_a_drain_gives_up_in_time() -> None:
    recorder = RecallRecorder(Store(opened=False), queue_size=10)
    await recorder.record(a_recall())

    async with asyncio.timeout(5.0):
        await recorder.drain(0.01)


async def test_a_stop_ends_the_waiting_for_a_store_that_is_away() -> None:
    recorder = RecallRecorder(Store(refusals=1_000_000), queue_size=10)
    stop = asyncio.Event()
    await recorder.record(a_recall())
    running = asyncio.create_task(recorder.run(stop))

    stop.set()

    async with asyncio.timeout(5.0):
        await running
