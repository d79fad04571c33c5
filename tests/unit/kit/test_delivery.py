"""Delivery's decisions, with stand-ins at its ports: what is committed, read again, set aside, and when it halts."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest
from aiokafka.errors import CommitFailedError, IllegalStateError

from lorebus_contracts.events import Event
from lorebus_kit.dead_letters import RejectedError
from lorebus_kit.verdicts import Applied, Duplicate, Rejected, Skipped, Verdict
from lorebus_store.database import Connection
from lorebus_store.errors import PermanentError, StoreError, TransientError
from tests.support.waiting import until
from tests.unit.kit.delivery_fakes import (
    LEFT,
    RIGHT,
    FakeBus,
    FakeConsumer,
    FakeDatabase,
    FakeHandler,
    delivery_of,
    poison,
    record,
    sound,
)


def offsets_of(bus: FakeBus) -> list[str]:
    """The offsets of the records that were dead-lettered, in order."""
    return [dict(letter.headers)["lorebus-origin-offset"].decode() for letter in bus.published]  # type: ignore[union-attr]  # Told headers have values.


def bad(*numbers: int) -> FakeHandler:
    """A handler that these events make raise."""

    def decide(event: Event) -> Verdict:
        if event.event_id.int in numbers:
            raise ValueError("a text of somebody's memory")
        return Applied()

    return FakeHandler(decide)


async def test_a_batch_is_one_transaction_and_is_committed_behind_its_last_record() -> None:
    handler, database, bus, consumer = FakeHandler(), FakeDatabase(), FakeBus(), FakeConsumer()
    delivery = delivery_of(handler, database=database, bus=bus)
    await delivery.process([sound(7), sound(8), sound(3, tp=RIGHT)], consumer)
    assert handler.batches == [[UUID(int=7), UUID(int=8), UUID(int=3)]]
    assert database.committed == 1
    assert consumer.commits == [{LEFT: 9, RIGHT: 4}]
    assert consumer.seeks == []


async def test_duplicates_and_skips_are_committed_like_what_was_applied() -> None:
    verdicts: dict[int, Verdict] = {1: Duplicate(), 2: Skipped("memory_disabled")}
    handler = FakeHandler(lambda event: verdicts[event.event_id.int])
    consumer, bus = FakeConsumer(), FakeBus()
    await delivery_of(handler, database=FakeDatabase(), bus=bus).process([sound(1), sound(2)], consumer)
    assert consumer.commits == [{LEFT: 3}]
    assert bus.published == []


async def test_what_cannot_be_read_is_set_aside_and_what_can_is_applied() -> None:
    handler, bus, consumer = FakeHandler(), FakeBus(), FakeConsumer()
    await delivery_of(handler, database=FakeDatabase(), bus=bus).process(
        [sound(1), poison(2), sound(3)], consumer
    )
    assert handler.batches == [[UUID(int=1), UUID(int=3)]]
    assert offsets_of(bus) == ["2"]
    assert consumer.commits == [{LEFT: 4}]


async def test_a_batch_of_poison_alone_needs_no_transaction() -> None:
    handler, database, consumer = FakeHandler(), FakeDatabase(), FakeConsumer()
    await delivery_of(handler, database=database, bus=FakeBus()).process([poison(1)], consumer)
    assert handler.batches == []
    assert database.committed == 0
    assert consumer.commits == [{LEFT: 2}]


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([("na\udcff", b"x")], id="a name that was not UTF-8"),
        pytest.param([("trace", b"\xff")], id="a value that is not UTF-8"),
        pytest.param([("trace", None)], id="a null value"),
    ],
)
async def test_a_sound_body_under_a_bad_header_is_set_aside(
    headers: list[tuple[str, bytes | None]],
) -> None:
    handler, bus, consumer = FakeHandler(), FakeBus(), FakeConsumer()
    value = sound(1).value
    await delivery_of(handler, database=FakeDatabase(), bus=bus).process(
        [record(1, value, headers=headers)], consumer
    )
    assert handler.batches == []
    assert bus.published[0].value == value
    assert dict(bus.published[0].headers)["lorebus-error-type"] == b"UndecodableHeaderError"


async def test_a_passing_fault_is_waited_out_and_sets_nothing_aside() -> None:
    handler, bus, consumer = FakeHandler(), FakeBus(), FakeConsumer()
    database = FakeDatabase(TransientError("away"), TransientError("still away"))
    await delivery_of(handler, database=database, bus=bus).process([sound(1)], consumer)
    assert handler.batches == [[UUID(int=1)]]
    assert bus.published == []
    assert consumer.commits == [{LEFT: 2}]


@pytest.mark.parametrize(
    "fault",
    [TransientError("away"), PermanentError("password authentication failed", sqlstate="28P01")],
    ids=["away", "a changed password"],
)
async def test_a_fault_that_lasts_longer_than_a_batch_is_held_rewinds_it(fault: StoreError) -> None:
    handler, bus, consumer = FakeHandler(), FakeBus(), FakeConsumer()
    database = FakeDatabase(fault)
    delivery = delivery_of(handler, database=database, bus=bus, hold_seconds=0.0)
    await delivery.process([sound(5), sound(6), sound(1, tp=RIGHT)], consumer)
    assert consumer.commits == []
    assert consumer.seeks == [(LEFT, 5), (RIGHT, 1)]
    assert bus.published == []
    assert not delivery.state.waiting_for_dependency


async def test_behind_an_undecided_record_nothing_is_set_aside_because_it_is_read_again() -> None:
    database, bus, consumer = FakeDatabase(TransientError("away")), FakeBus(), FakeConsumer()
    delivery = delivery_of(FakeHandler(), database=database, bus=bus, hold_seconds=0.0)
    await delivery.process([poison(4), sound(5), poison(6), poison(2, tp=RIGHT)], consumer)
    assert offsets_of(bus) == ["4", "2"]
    assert consumer.commits == [{LEFT: 5, RIGHT: 3}]
    assert consumer.seeks == [(LEFT, 5)]


async def test_of_a_batch_that_fails_only_the_culprit_is_set_aside_after_three_tries() -> None:
    handler, bus, consumer = bad(2), FakeBus(), FakeConsumer()
    await delivery_of(handler, database=FakeDatabase(), bus=bus).process(
        [sound(1), sound(2), sound(3)], consumer
    )
    one, two, three = UUID(int=1), UUID(int=2), UUID(int=3)
    assert handler.batches == [[one, two, three], [one], [two], [two], [two], [three]]
    assert offsets_of(bus) == ["2"]
    assert consumer.commits == [{LEFT: 4}]


async def test_an_error_of_a_handler_is_told_by_its_type_and_never_by_its_text() -> None:
    bus = FakeBus()
    await delivery_of(bad(1), database=FakeDatabase(), bus=bus).process([sound(1)], FakeConsumer())
    headers = dict(bus.published[0].headers)
    assert headers["lorebus-error-type"] == b"ValueError"
    assert headers["lorebus-error-text"] == b"ValueError"


async def test_a_fault_while_records_are_tried_alone_leaves_the_rest_for_later() -> None:
    calls = 0

    async def handler(_connection: Connection, events: Sequence[Event]) -> Sequence[Verdict]:
        nonlocal calls
        calls += 1
        if len(events) > 1:
            raise ValueError
        if events[0].event_id.int == 2:
            raise TransientError("away")
        return [Applied()]

    consumer, bus = FakeConsumer(), FakeBus()
    delivery = delivery_of(handler, database=FakeDatabase(), bus=bus, hold_seconds=0.0)
    await delivery.process([sound(1), sound(2), sound(3)], consumer)
    assert consumer.commits == [{LEFT: 2}]
    assert consumer.seeks == [(LEFT, 2)]
    assert bus.published == []


async def test_a_rejected_event_is_set_aside_with_its_reason_and_the_others_stay_applied() -> None:
    handler = FakeHandler(
        lambda event: Rejected("unknown_organization") if event.event_id.int == 1 else Applied()
    )
    database, bus, consumer = FakeDatabase(), FakeBus(), FakeConsumer()
    await delivery_of(handler, database=database, bus=bus).process([sound(1), sound(2)], consumer)
    headers = dict(bus.published[0].headers)
    assert headers["lorebus-error-type"] == b"RejectedError"
    assert headers["lorebus-error-text"] == b"unknown_organization"
    assert len(handler.batches) == 1
    assert consumer.commits == [{LEFT: 3}]


async def test_a_handler_that_does_not_speak_of_each_event_has_its_transaction_rolled_back() -> None:
    async def handler(_connection: Connection, _events: Sequence[Event]) -> Sequence[Verdict]:
        return []

    database, bus, consumer = FakeDatabase(), FakeBus(), FakeConsumer()
    await delivery_of(handler, database=database, bus=bus).process([sound(1)], consumer)
    assert database.rolled_back == 4
    assert offsets_of(bus) == ["1"]


async def test_a_dead_letter_that_is_not_confirmed_keeps_its_record_and_lets_the_partition_rest() -> None:
    bus, consumer = FakeBus(refusals=1), FakeConsumer()
    delivery = delivery_of(FakeHandler(), database=FakeDatabase(), bus=bus)
    await delivery.process([sound(1), poison(2), poison(3), sound(4), poison(8, tp=RIGHT)], consumer)
    assert offsets_of(bus) == ["8"]
    assert consumer.commits == [{LEFT: 2, RIGHT: 9}]
    assert consumer.seeks == [(LEFT, 2)]
    assert consumer.paused == {LEFT}


async def test_a_partition_that_rested_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lorebus_kit.delivery.STALL_SECONDS", 0.0)
    bus, consumer = FakeBus(refusals=1), FakeConsumer()
    await delivery_of(FakeHandler(), database=FakeDatabase(), bus=bus).process([poison(2)], consumer)
    await until(lambda: not consumer.paused, what="the partition goes on")
    assert consumer.seeks == [(LEFT, 2)]


async def test_dead_letters_in_a_row_beyond_the_limit_halt_the_consumer_and_lose_nothing() -> None:
    bus, consumer = FakeBus(), FakeConsumer()
    delivery = delivery_of(FakeHandler(), database=FakeDatabase(), bus=bus, dead_letter_limit=2)
    await delivery.process([poison(1), poison(2), poison(3), poison(4)], consumer)
    assert offsets_of(bus) == ["1", "2"]
    assert consumer.commits == [{LEFT: 3}]
    assert consumer.seeks == [(LEFT, 3)]
    assert delivery.state.halted is not None
    assert "nothing is lost" in delivery.state.halted


async def test_a_good_record_between_dead_letters_begins_the_count_anew() -> None:
    bus, consumer = FakeBus(), FakeConsumer()
    delivery = delivery_of(FakeHandler(), database=FakeDatabase(), bus=bus, dead_letter_limit=2)
    await delivery.process([poison(1), poison(2), sound(3), poison(4), poison(5)], consumer)
    assert delivery.state.halted is None
    assert offsets_of(bus) == ["1", "2", "4", "5"]


async def test_dead_letters_are_counted_from_one_batch_to_the_next() -> None:
    bus, consumer = FakeBus(), FakeConsumer()
    delivery = delivery_of(FakeHandler(), database=FakeDatabase(), bus=bus, dead_letter_limit=2)
    await delivery.process([poison(1), poison(2)], consumer)
    assert delivery.state.halted is None
    await delivery.process([poison(3)], consumer)
    assert delivery.state.halted is not None


async def test_a_handler_that_fails_on_everything_halts_before_it_has_tried_the_whole_batch() -> None:
    handler, bus, consumer = bad(*range(10)), FakeBus(), FakeConsumer()
    delivery = delivery_of(handler, database=FakeDatabase(), bus=bus, dead_letter_limit=1)
    await delivery.process([sound(number) for number in range(10)], consumer)
    assert offsets_of(bus) == ["0"]
    assert consumer.commits == [{LEFT: 1}]
    tried = {number for batch in handler.batches if len(batch) == 1 for number in batch}
    assert tried == {UUID(int=0), UUID(int=1)}


async def test_a_partition_that_moved_away_is_neither_committed_nor_rewound() -> None:
    consumer = FakeConsumer(RIGHT)
    delivery = delivery_of(FakeHandler(), database=FakeDatabase(), bus=FakeBus())
    await delivery.process([sound(1), sound(2, tp=RIGHT)], consumer)
    assert consumer.commits == [{RIGHT: 3}]
    assert consumer.seeks == []


@pytest.mark.parametrize("error", [CommitFailedError(), TimeoutError(), IllegalStateError(), ValueError()])
async def test_offsets_that_cannot_be_committed_do_not_end_the_consumer(error: Exception) -> None:
    delivery = delivery_of(FakeHandler(), database=FakeDatabase(), bus=FakeBus())
    await delivery.process([sound(1)], FakeConsumer(commit_error=error))
    assert delivery.state.busy_since is None
    await delivery.drain()


async def test_a_failure_is_noted_with_its_error_on_the_run_of_the_event() -> None:
    noted: list[tuple[UUID, str]] = []

    async def note(_connection: Connection, event: Event, error: Exception) -> None:
        noted.append((event.event_id, f"{type(error).__name__}: {error}"))

    handler = FakeHandler(lambda _event: Rejected("unknown_organization"))
    delivery = delivery_of(handler, database=FakeDatabase(), bus=FakeBus(), record_failure=note)
    await delivery.process([sound(1), poison(2)], FakeConsumer())
    assert noted == [(UUID(int=1), "RejectedError: unknown_organization")]


@pytest.mark.parametrize("refusal", [TransientError("away"), PermanentError("never")])
async def test_a_failure_that_cannot_be_noted_is_dead_lettered_once_all_the_same(refusal: Exception) -> None:
    async def note(_connection: Connection, _event: Event, error: Exception) -> None:
        assert isinstance(error, RejectedError)
        raise refusal

    bus, consumer = FakeBus(), FakeConsumer()
    handler = FakeHandler(lambda _event: Rejected("unknown_organization"))
    delivery = delivery_of(handler, database=FakeDatabase(), bus=bus, record_failure=note)
    await delivery.process([sound(1), sound(2)], consumer)
    assert offsets_of(bus) == ["1", "2"]
    assert consumer.commits == [{LEFT: 3}]
    assert consumer.seeks == []


async def test_a_drain_gives_back_at_once_what_waits_for_a_dependency() -> None:
    faults = [TransientError("away")] * 1000
    consumer = FakeConsumer()
    delivery = delivery_of(FakeHandler(), database=FakeDatabase(*faults), bus=FakeBus())
    working = asyncio.create_task(delivery.process([sound(1)], consumer))
    await until(lambda: delivery.state.waiting_for_dependency, what="the batch waits")
    async with asyncio.timeout(10):
        await delivery.drain()
        await working
    assert consumer.seeks == [(LEFT, 1)]
    assert consumer.commits == []


async def test_a_drain_waits_for_the_batch_in_hand() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def handler(_connection: Connection, events: Sequence[Event]) -> Sequence[Verdict]:
        begun.set()
        await may_end.wait()
        return [Applied()] * len(events)

    consumer = FakeConsumer()
    delivery = delivery_of(handler, database=FakeDatabase(), bus=FakeBus())
    working = asyncio.create_task(delivery.process([sound(1)], consumer))
    async with asyncio.timeout(10):
        await begun.wait()
        drained = asyncio.create_task(delivery.drain())
        await asyncio.sleep(0)
        assert not drained.done()
        may_end.set()
        await drained
        await working
    assert consumer.commits == [{LEFT: 2}]
