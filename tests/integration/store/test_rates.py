"""Permits of a window, given out to all gateways together."""

import asyncio
from datetime import timedelta

from lorebus_store import rates
from lorebus_store.rates import Permits
from tests.integration.store.builders import ORGANIZATION, OTHER_ORGANIZATION, StoreDatabase, run_sql, value

MINUTE = timedelta(minutes=1)
AN_HOUR = timedelta(hours=1)


async def take(
    database: StoreDatabase, *, limit: int = 100, wanted: int = 5, credential: bytes = b"one"
) -> Permits:
    async with database.begin() as conn:
        return await rates.take(
            conn,
            organization_uuid=ORGANIZATION,
            credential=credential,
            limit=limit,
            wanted=wanted,
            window=AN_HOUR,
        )


async def test_permits_are_given_until_the_limit_is_reached(database: StoreDatabase) -> None:
    granted = [(await take(database, limit=10, wanted=4)).granted for _ in range(12)]

    assert granted == [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0]


async def test_whoever_asks_gets_what_it_wants_as_long_as_much_is_left(database: StoreDatabase) -> None:
    granted = [(await take(database, limit=100, wanted=5)).granted for _ in range(200)]

    assert granted[:13] == [5] * 13
    assert granted[13:16] == [4, 3, 3]
    assert sum(granted) == 100


async def test_many_who_ask_at_once_get_no_more_than_the_limit(database: StoreDatabase) -> None:
    async def all_that_can_be_had() -> int:
        had = 0
        while permits := (await take(database, limit=60, wanted=3)).granted:
            had += permits
        return had

    assert sum(await asyncio.gather(*(all_that_can_be_had() for _ in range(4)))) == 60


async def test_each_credential_of_each_organization_has_a_window_of_its_own(database: StoreDatabase) -> None:
    assert (await take(database, limit=1)).granted == 1
    assert (await take(database, limit=1)).granted == 0
    assert (await take(database, limit=1, credential=b"two")).granted == 1
    async with database.begin() as conn:
        other = await rates.take(
            conn,
            organization_uuid=OTHER_ORGANIZATION,
            credential=b"one",
            limit=1,
            wanted=1,
            window=AN_HOUR,
        )
    assert other.granted == 1


async def test_a_new_window_begins_with_all_permits(database: StoreDatabase) -> None:
    await take(database, limit=1)
    async with database.begin() as conn:
        await run_sql(conn, "UPDATE lorebus.rate_windows SET ends_at = ends_at - interval '1 hour'")

    again = await take(database, limit=1)

    assert again.granted == 1
    assert 0 < again.seconds_left <= 3_600


async def test_a_window_ends_with_the_clock_and_not_with_its_first_request(database: StoreDatabase) -> None:
    await take(database)
    async with database.read() as conn:
        ends = await value(
            conn,
            "SELECT extract(minute FROM ends_at) + extract(second FROM ends_at) FROM lorebus.rate_windows",
        )

    assert ends == 0


async def test_a_limit_that_was_lowered_gives_nothing_more(database: StoreDatabase) -> None:
    for _ in range(3):
        await take(database, limit=100)

    assert (await take(database, limit=10)).granted == 0
