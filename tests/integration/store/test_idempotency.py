"""First answers to POSTs with an Idempotency-Key."""

import asyncio
from datetime import timedelta

from lorebus_store import idempotency
from lorebus_store.idempotency import KeptAnswer
from tests.integration.store.builders import ORGANIZATION, OTHER_ORGANIZATION, StoreDatabase, run_sql


async def reserve(
    database: StoreDatabase, *, route: str = "save", body_hash: bytes = b"one"
) -> KeptAnswer | None:
    async with database.begin() as conn:
        return await idempotency.reserve(
            conn,
            organization_uuid=ORGANIZATION,
            route=route,
            key="k",
            body_hash=body_hash,
            given_up_after=timedelta(minutes=1),
        )


async def an_hour_passes(database: StoreDatabase) -> None:
    async with database.begin() as conn:
        await run_sql(conn, "UPDATE lorebus.idempotency_keys SET created_at = created_at - interval '1 hour'")


async def test_the_second_request_gets_the_first_answer(database: StoreDatabase) -> None:
    this = {"organization_uuid": ORGANIZATION, "route": "save", "key": "k"}
    assert await reserve(database) is None
    assert await reserve(database, body_hash=b"two") == KeptAnswer(b"one", None, None)
    async with database.begin() as conn:
        await idempotency.remember(conn, **this, status=202, response=b'{"id": 1}')  # type: ignore[arg-type]
    assert await reserve(database) == KeptAnswer(b"one", 202, b'{"id": 1}')


async def test_a_key_belongs_to_one_organization_and_route(database: StoreDatabase) -> None:
    assert await reserve(database) is None
    assert await reserve(database, route="prune") is None
    async with database.read() as conn:
        assert (
            await idempotency.find(conn, organization_uuid=OTHER_ORGANIZATION, route="save", key="k") is None
        )


async def test_a_request_that_came_to_nothing_may_be_tried_again_but_an_answer_stays(
    database: StoreDatabase,
) -> None:
    for answered in (False, True):
        assert await reserve(database) is None
        async with database.begin() as conn:
            if answered:
                await idempotency.remember(
                    conn, organization_uuid=ORGANIZATION, route="save", key="k", status=202, response=b""
                )
            await idempotency.forget(conn, organization_uuid=ORGANIZATION, route="save", key="k")
    assert await reserve(database) == KeptAnswer(b"one", 202, b"")


async def test_of_requests_at_once_one_is_first(database: StoreDatabase) -> None:
    answers = await asyncio.gather(*(reserve(database) for _ in range(8)))
    assert [answer for answer in answers if answer is None] == [None]
    assert {answer for answer in answers if answer is not None} == {KeptAnswer(b"one", None, None)}


async def test_a_request_that_never_answered_is_taken_over_by_the_same_one_alone(
    database: StoreDatabase,
) -> None:
    assert await reserve(database) is None
    await an_hour_passes(database)
    assert await reserve(database, body_hash=b"two") == KeptAnswer(b"one", None, None)
    assert await reserve(database) is None
    assert await reserve(database) == KeptAnswer(b"one", None, None)


async def test_an_old_answer_is_not_taken_over(database: StoreDatabase) -> None:
    assert await reserve(database) is None
    async with database.begin() as conn:
        await idempotency.remember(
            conn, organization_uuid=ORGANIZATION, route="save", key="k", status=202, response=b"{}"
        )
    await an_hour_passes(database)
    assert await reserve(database) == KeptAnswer(b"one", 202, b"{}")


async def test_all_answers_of_an_organization_can_be_forgotten_but_not_what_is_in_hand(
    database: StoreDatabase,
) -> None:
    assert await reserve(database) is None
    assert await reserve(database, route="prune") is None
    async with database.begin() as conn:
        await idempotency.remember(
            conn, organization_uuid=ORGANIZATION, route="save", key="k", status=202, response=b"{}"
        )
        assert await idempotency.forget_answers(conn, OTHER_ORGANIZATION) == 0
        assert await idempotency.forget_answers(conn, ORGANIZATION) == 1
    assert await reserve(database) is None
    assert await reserve(database, route="prune") == KeptAnswer(b"one", None, None)
