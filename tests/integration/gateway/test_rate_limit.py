"""A limit of requests a minute for each token and API key, over all gateways together."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import httpx
import pytest

from lorebus_domain.visibility import NoCaller
from lorebus_gateway.errors import TooManyRequestsError
from lorebus_gateway.rate_limit import RateLimit
from lorebus_kit.keys import create_key
from lorebus_kit.tokens import SessionClaims, SessionTokens
from lorebus_store.acting import ActsFor
from lorebus_store.database import Connection, Database
from tests.support.databases import ArrangedDatabase
from tests.support.gateways import NOBODY, TOKEN_SECRET, Asking, running_gateway, serving

AN_HOUR = timedelta(hours=1)
AWAY = f"postgresql://nobody@{NOBODY}/none"
ORGANIZATION = UUID("00000000-0000-4000-8000-00000000000a")


class CountingDatabase(ArrangedDatabase):
    """A database that counts how often it is asked."""

    asked = 0

    @asynccontextmanager
    async def begin(self, acts_for: ActsFor | None = None) -> AsyncIterator[Connection]:
        self.asked += 1
        async with super().begin(acts_for) as connection:
            yield connection


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[CountingDatabase]:
    database = CountingDatabase(database_url)
    yield database
    await database.dispose()


@pytest.fixture
async def limited(database_url: str) -> AsyncIterator[Asking]:
    """A gateway that lets a credential ask ten times a minute."""
    async with running_gateway(database_url, rate_limit_per_minute=10) as asking:
        yield asking


async def let_through(limit: RateLimit, times: int, *, credential: bytes = b"one") -> int:
    """How many of so many requests at once are let through."""
    checks = (limit.check(ORGANIZATION, credential) for _ in range(times))
    answers = await asyncio.gather(*checks, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, TooManyRequestsError)]
    assert [answer for answer in answers if answer is not None] == refused
    return times - len(refused)


async def until_refused(gateway: Asking, *, schemes: Sequence[str] = ("Bearer ",)) -> httpx.Response:
    """The first refusal; at the latest the 21st request is one, since it lies in the second minute at most."""
    for number in range(21):
        authorization = schemes[number % len(schemes)] + gateway.api_key
        answer = await gateway.client.get("/api/app/organization", headers={"authorization": authorization})
        if answer.status_code != 200:
            return answer
    raise AssertionError("nothing was refused")


async def test_a_key_that_asks_too_often_is_told_when_to_go_on(limited: Asking) -> None:
    answer = await until_refused(limited)

    assert answer.status_code == 429
    assert answer.json()["type"] == "urn:lorebus:problem:too-many-requests"
    assert 1 <= int(answer.headers["retry-after"]) <= 60


async def test_other_credentials_are_not_refused_with_it_nor_what_needs_none(limited: Asking) -> None:
    session = await limited.session(await limited.config())
    other = await create_key(limited.database, limited.organization_uuid, name="other")
    await until_refused(limited)

    assert (await limited.save(session, {"content": "x"})).status_code == 202
    assert (await limited.ask("GET", "/api/app/organization", key=other)).status_code == 200
    assert (await limited.client.get("/api/workflows/types")).status_code == 200


async def test_a_key_is_the_same_however_its_header_is_spaced(limited: Asking) -> None:
    answer = await until_refused(limited, schemes=("Bearer ", "bEARER   "))

    assert answer.status_code == 429


async def test_nobody_is_limited_unless_that_is_set(gateway: Asking) -> None:
    for _ in range(30):
        assert (await gateway.ask("GET", "/api/app/organization")).status_code == 200
    assert not await gateway.rows("SELECT taken FROM lorebus.rate_windows")


async def test_all_gateways_together_let_through_as_many_as_the_limit_says(
    database: ArrangedDatabase,
) -> None:
    gateways = [RateLimit(database, per_window=100, window=AN_HOUR) for _ in range(3)]

    through = await asyncio.gather(*(let_through(gateway, 100) for gateway in gateways))

    assert sum(through) == 100


async def test_a_gateway_asks_for_permits_in_batches_and_not_at_all_once_there_are_none(
    database: CountingDatabase,
) -> None:
    limit = RateLimit(database, per_window=1_000, window=AN_HOUR)

    assert await let_through(limit, 1_200) == 1_000
    asked = database.asked
    assert asked < 100
    assert await let_through(limit, 100) == 0
    assert database.asked == asked


async def test_a_new_window_lets_through_again(database: ArrangedDatabase) -> None:
    limit = RateLimit(database, per_window=2, window=timedelta(milliseconds=50))
    through = 0
    async with asyncio.timeout(20):
        while through < 10:
            through += await let_through(limit, 5)


async def test_nobody_waits_for_permits_from_a_database_that_is_away() -> None:
    away = Database(AWAY)
    limit = RateLimit(away, per_window=1, window=AN_HOUR)

    assert await let_through(limit, 50) == 50
    await away.dispose()


async def test_saves_go_on_while_the_database_is_away(bootstrap_servers: str, topics: str) -> None:
    session_uuid = uuid4()
    claims = SessionClaims(uuid4(), uuid4(), session_uuid, NoCaller())
    tokens = SessionTokens([TOKEN_SECRET], lifetime=timedelta(minutes=5))
    headers = {"authorization": f"Agent {tokens.mint(claims, now=datetime.now(UTC))[0]}"}
    async with (
        serving(
            AWAY,
            accept="bus",
            bootstrap_servers=bootstrap_servers,
            topic_prefix=topics,
            rate_limit_per_minute=1,
        ) as url,
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=30.0) as client,
    ):
        path = f"/api/agents/sessions/{session_uuid}/memory-save"
        answers = [await client.post(path, json={"content": "x"}, headers=headers) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [202, 202, 202]
