"""Work beside a consumer is begun again whatever ends it, and a producer without a broker says so at once."""

import asyncio

import pytest

from lorebus_kit.bus import BusProducer, Record
from lorebus_kit.delivery import keep_running
from lorebus_store.errors import TransientError


@pytest.mark.parametrize("error", [TransientError("away"), ValueError("a fault of ours"), None])
async def test_work_that_fails_or_ends_is_begun_again_until_it_is_stopped(error: Exception | None) -> None:
    stop, begun = asyncio.Event(), 0

    async def work(_stop: asyncio.Event) -> None:
        nonlocal begun
        begun += 1
        if begun == 3:
            stop.set()
        if error is not None:
            raise error

    async with asyncio.timeout(10):
        await keep_running(work, stop)
    assert begun == 3


async def test_a_producer_that_never_reached_its_broker_refuses_every_record_and_stops_at_once() -> None:
    bus = BusProducer("127.0.0.1:1")
    await bus.start(wait_seconds=0.0)
    answers = await bus.publish_all([Record("t", None, b"1"), Record("t", None, b"2")])
    assert [type(answer) for answer in answers] == [TransientError, TransientError]
    with pytest.raises(TransientError):
        await bus.publish("t", None, b"3")
    assert not bus.connected
    async with asyncio.timeout(10):
        await bus.stop()
