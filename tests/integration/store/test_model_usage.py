"""The book of model calls: counted before they are made, held against a budget, each organization and day alone."""

import asyncio
from datetime import date
from typing import Final

from lorebus_store import model_usage
from lorebus_store.database import Connection
from lorebus_store.model_usage import DayUsage
from tests.integration.store.builders import ORGANIZATION, OTHER_ORGANIZATION, StoreDatabase

MONDAY: Final = date(2026, 3, 2)
TUESDAY: Final = date(2026, 3, 3)


async def count(
    conn: Connection, *, day: date = MONDAY, tokens: int = 100, max_calls: int = 3, max_tokens: int = 1_000
) -> bool:
    return await model_usage.count_call(
        conn, ORGANIZATION, day, prompt_tokens=tokens, max_calls=max_calls, max_tokens=max_tokens
    )


async def test_calls_are_counted_up_to_the_budget_and_not_beyond(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        counted = [await count(conn) for _ in range(5)]
        used = await model_usage.of_day(conn, ORGANIZATION, MONDAY)

    assert counted == [True, True, True, False, False]
    assert used == DayUsage(calls=3, prompt_tokens=300, completion_tokens=0)


async def test_tokens_of_both_kinds_use_up_the_budget(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        assert await count(conn, tokens=600, max_tokens=700)
        await model_usage.add_tokens(conn, ORGANIZATION, MONDAY, prompt_tokens=0, completion_tokens=100)
        refused = await count(conn, tokens=1, max_tokens=700)

    assert not refused


async def test_what_the_endpoint_counted_takes_the_place_of_the_estimate(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        await count(conn, tokens=500)
        await model_usage.add_tokens(conn, ORGANIZATION, MONDAY, prompt_tokens=-120, completion_tokens=30)
        used = await model_usage.of_day(conn, ORGANIZATION, MONDAY)

    assert used == DayUsage(calls=1, prompt_tokens=380, completion_tokens=30)


async def test_a_new_day_and_another_organization_have_budgets_of_their_own(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        assert await count(conn, max_calls=1)
        assert not await count(conn, max_calls=1)
        assert await count(conn, day=TUESDAY, max_calls=1)
        others = await model_usage.of_day(conn, OTHER_ORGANIZATION, MONDAY)

    assert others == DayUsage(0, 0, 0)


async def test_a_budget_of_nothing_allows_nothing(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        assert not await count(conn, max_calls=0)
        assert not await count(conn, max_tokens=0)


async def test_two_processes_never_both_take_the_last_call(database: StoreDatabase) -> None:
    async def take() -> bool:
        async with database.begin() as conn:
            return await count(conn, max_calls=7)

    taken = await asyncio.gather(*(take() for _ in range(20)))

    assert sum(taken) == 7
