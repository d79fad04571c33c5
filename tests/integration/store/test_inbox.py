"""Claiming events."""

import asyncio
from uuid import UUID

from lorebus_store import inbox
from tests.integration.store.builders import (
    ORGANIZATION,
    OTHER_ORGANIZATION,
    StoreDatabase,
    backend_id,
    eventually,
    is_waiting_for_a_lock,
)

ONE, TWO = (ORGANIZATION, UUID(int=1)), (ORGANIZATION, UUID(int=2))


async def test_an_event_is_claimed_once_by_each_consumer(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        assert await inbox.claim_events(conn, "labels", [TWO, ONE, TWO]) == {ONE, TWO}
        assert await inbox.claim_events(conn, "labels", [ONE, (OTHER_ORGANIZATION, UUID(int=1))]) == {
            (OTHER_ORGANIZATION, UUID(int=1))
        }
        assert await inbox.claim_events(conn, "other", [ONE]) == {ONE}
        assert await inbox.claim_events(conn, "labels", []) == set()


async def test_a_second_consumer_waits_and_takes_over_only_after_a_rollback(database: StoreDatabase) -> None:
    for rolls_back, event in ((False, ONE), (True, TWO)):
        pids: list[int] = []

        async def claim(event: tuple[UUID, UUID] = event, pids: list[int] = pids) -> set[tuple[UUID, UUID]]:
            async with database.begin() as conn:
                pids.append(await backend_id(conn))
                return await inbox.claim_events(conn, "labels", [event])

        async def is_waiting(pids: list[int] = pids) -> bool:
            return bool(pids) and await is_waiting_for_a_lock(database, pids[0])

        try:
            async with database.begin() as first:
                await inbox.claim_events(first, "labels", [event])
                second = asyncio.create_task(claim())
                await eventually(is_waiting)
                if rolls_back:
                    raise LookupError("the first consumer fails")  # noqa: TRY301  # To roll back.
        except LookupError:
            pass
        assert await second == ({event} if rolls_back else set())
