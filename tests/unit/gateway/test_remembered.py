"""What a gateway remembers of settings and keys, and how it forgets."""

import asyncio

from lorebus_gateway.remembered import Remembered


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Source:
    """Answers with what it holds, and counts how often it was asked."""

    def __init__(self, value: str | None) -> None:
        self.value = value
        self.asked = 0

    async def __call__(self) -> str | None:
        self.asked += 1
        return self.value


async def test_a_value_is_asked_for_once_in_its_seconds() -> None:
    clock, source = Clock(), Source("first")
    remembered: Remembered[str, str] = Remembered(seconds=5.0, clock=clock)

    assert await remembered.get("key", source) == "first"
    source.value = "second"
    clock.now = 4.9
    assert await remembered.get("key", source) == "first"
    clock.now = 5.0
    assert await remembered.get("key", source) == "second"
    assert source.asked == 2


async def test_that_there_is_none_is_not_remembered() -> None:
    source = Source(None)
    remembered: Remembered[str, str] = Remembered(seconds=5.0)

    assert await remembered.get("key", source) is None
    source.value = "made meanwhile"
    assert await remembered.get("key", source) == "made meanwhile"


async def test_what_is_forgotten_is_asked_for_again() -> None:
    source = Source("before")
    remembered: Remembered[str, str] = Remembered(seconds=5.0)
    await remembered.get("key", source)

    source.value = "after"
    remembered.forget()

    assert await remembered.get("key", source) == "after"


async def test_an_answer_from_before_a_change_is_not_remembered_after_it() -> None:
    remembered: Remembered[str, str] = Remembered(seconds=5.0)
    asked, told = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        asked.set()
        await told.wait()
        return "before"

    reading = asyncio.create_task(remembered.get("key", slow))
    await asked.wait()
    remembered.forget()
    told.set()

    assert await reading == "before"
    assert await remembered.get("key", Source("after")) == "after"


async def test_it_holds_no_more_than_so_many() -> None:
    remembered: Remembered[int, str] = Remembered(seconds=5.0)
    for number in range(10_001):
        await remembered.get(number, Source("value"))
    first, last = Source("value"), Source("value")

    await remembered.get(10_000, last)
    await remembered.get(0, first)

    assert (first.asked, last.asked) == (1, 0)
