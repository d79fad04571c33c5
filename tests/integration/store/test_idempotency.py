"""First answers to POSTs with an Idempotency-Key."""

import asyncio

from lorebus_store import idempotency
from lorebus_store.database import Database
from lorebus_store.idempotency import KeptAnswer
from tests.integration.store.builders import ORGANIZATION, OTHER_ORGANIZATION


async def reserve(database: Database, *, route: str = "save", body_hash: bytes = b"one") -> KeptAnswer | None:
    async with database.begin() as conn:
        return await idempotency.reserve(
            conn, organization_uuid=ORGANIZATION, route=route, key="k", body_hash=body_hash
        )


async def test_the_second_request_gets_the_first_answer(database: Database) -> None:
    this = {"organization_uuid": ORGANIZATION, "route": "save", "key": "k"}
    assert await reserve(database) is None
    assert await reserve(database, body_hash=b"two") == KeptAnswer(b"one", None, None)
    async with database.begin() as conn:
        await idempotency.remember(conn, **this, status=202, response=b'{"id": 1}')  # type: ignore[arg-type]
    assert await reserve(database) == KeptAnswer(b"one", 202, b'{"id": 1}')


async def test_a_key_belongs_to_one_organization_and_route(database: Database) -> None:
    assert await reserve(database) is None
    assert await reserve(database, route="prune") is None
    async with database.read() as conn:
        assert (
            await idempotency.find(conn, organization_uuid=OTHER_ORGANIZATION, route="save", key="k") is None
        )


async def test_a_request_that_came_to_nothing_may_be_tried_again_but_an_answer_stays(
    database: Database,
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


async def test_of_requests_at_once_one_is_first(database: Database) -> None:
    answers = await asyncio.gather(*(reserve(database) for _ in range(8)))
    assert [answer for answer in answers if answer is None] == [None]
    assert {answer for answer in answers if answer is not None} == {KeptAnswer(b"one", None, None)}
