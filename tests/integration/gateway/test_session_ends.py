"""A token is good until its session has been over for a while, and hardly any request asks for that."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import httpx
import pytest

from lorebus_domain.visibility import NoCaller
from lorebus_gateway.session_ends import SessionEnds
from lorebus_kit.tokens import SessionClaims, SessionTokens, VerifiedToken
from lorebus_store import sessions
from lorebus_store.acting import ActsFor, Tenants
from lorebus_store.database import Connection, Database
from lorebus_store.sessions import SessionOutcome
from tests.support.gateways import NOBODY, TOKEN_SECRET, Asking, Registered, running_gateway, serving

ORGANIZATION, CONFIG, SESSION = UUID(int=1), UUID(int=2), UUID(int=3)
CLAIMS = SessionClaims(ORGANIZATION, CONFIG, SESSION, NoCaller())
MINTED = VerifiedToken(CLAIMS, issued_at=1_000_000, expires_at=1_086_400)
UNAUTHENTICATED = (
    b'{"type":"urn:lorebus:problem:not-authenticated","title":"Not authenticated","status":401,'
    b'"detail":"A valid session token or API key is needed."}'
)


class CountingDatabase(Database):
    """A database that counts how often it is asked."""

    questions = 0

    @asynccontextmanager
    async def read(self, acts_for: ActsFor) -> AsyncIterator[Connection]:
        self.questions += 1
        async with super().read(acts_for) as connection:
            yield connection


class Clock:
    """A clock that a test sets: seconds after the token was minted."""

    seconds = 0.0

    def __call__(self) -> float:
        return MINTED.issued_at + self.seconds


@pytest.fixture
async def counting(database_url: str) -> AsyncIterator[CountingDatabase]:
    database = CountingDatabase(database_url, pool_size=1)
    try:
        yield database
    finally:
        await database.dispose()


async def end(database: Database, claims: SessionClaims, *, seconds: float) -> None:
    """Keep a session's end as the labeller does, so many seconds after the token was minted."""
    outcome = SessionOutcome(
        claims.organization_uuid,
        claims.session_uuid,
        claims.agent_config_uuid,
        "success",
        datetime.fromtimestamp(MINTED.issued_at + seconds, UTC),
        uuid4(),
    )
    async with database.begin(Tenants.of(claims.organization_uuid)) as connection:
        await sessions.apply_outcomes(connection, [outcome])


def ends_of(database: Database, clock: Clock) -> SessionEnds:
    return SessionEnds(database, grace_seconds=300, remember_seconds=5, clock=clock)


async def test_a_session_is_asked_for_once_a_grace_and_its_end_is_never_missed(
    counting: CountingDatabase,
) -> None:
    clock = Clock()
    ends = ends_of(counting, clock)

    told = []
    for seconds in (0, 299, 300, 599, 600, 899, 900, 901):
        if seconds == 600:
            await end(counting, CLAIMS, seconds=590)
        clock.seconds = seconds
        told.append((seconds, await ends.is_over(MINTED), counting.questions))

    # It ended at 590, and so the grace is over at 890.
    assert told == [
        (0, False, 0),
        (299, False, 0),
        (300, False, 1),
        (599, False, 1),
        (600, False, 2),
        (899, True, 2),
        (900, True, 3),
        (901, True, 3),
    ]


async def test_an_end_that_this_gateway_was_told_of_needs_no_question(counting: CountingDatabase) -> None:
    clock = Clock()
    ends = ends_of(counting, clock)
    clock.seconds = 400
    ends.note(ORGANIZATION, SESSION, datetime.fromtimestamp(MINTED.issued_at + 400, UTC))

    clock.seconds = 699
    within = await ends.is_over(MINTED)
    clock.seconds = 700
    beyond = await ends.is_over(MINTED)

    # By then the database is asked again; that it has not heard of the end yet changes nothing.
    assert (within, beyond, counting.questions) == (False, True, 1)


async def test_a_token_that_was_minted_after_the_end_has_the_grace_as_well(
    counting: CountingDatabase,
) -> None:
    clock = Clock()
    await end(counting, CLAIMS, seconds=-5_000)
    ends = ends_of(counting, clock)

    clock.seconds = 299
    within = await ends.is_over(MINTED)
    clock.seconds = 300
    beyond = await ends.is_over(MINTED)

    assert (within, beyond) == (False, True)


async def test_an_end_of_the_same_session_elsewhere_is_not_its_end(counting: CountingDatabase) -> None:
    clock = Clock()
    await end(counting, SessionClaims(UUID(int=9), CONFIG, SESSION, NoCaller()), seconds=0)
    clock.seconds = 5_000

    assert not await ends_of(counting, clock).is_over(MINTED)


async def test_while_the_database_is_away_what_is_known_counts_and_it_is_left_alone() -> None:
    away = CountingDatabase(f"postgresql://nobody@{NOBODY}/none", pool_size=1)
    clock = Clock()
    ends = ends_of(away, clock)
    clock.seconds = 5_000

    unknown = [await ends.is_over(MINTED) for _ in range(3)]
    ends.note(ORGANIZATION, SESSION, datetime.fromtimestamp(MINTED.issued_at + 10, UTC))
    known = [await ends.is_over(MINTED) for _ in range(3)]

    assert (unknown, known) == ([False] * 3, [True] * 3)
    assert away.questions == 1
    await away.dispose()


@pytest.fixture
async def hasty(database_url: str) -> AsyncIterator[Asking]:
    """A gateway whose tokens are good for a moment after the end."""
    async with running_gateway(database_url, token_grace_seconds=0.05) as asking:
        yield asking


async def until_refused(gateway: Asking, session: Registered) -> httpx.Response:
    async def is_refused() -> bool:
        return (await gateway.save(session, {"content": "late"})).status_code == 401

    await gateway.until(is_refused)
    return await gateway.save(session, {"content": "late"})


async def test_a_session_that_ended_over_http_is_shut_out_of_every_route(hasty: Asking) -> None:
    session = await hasty.session(await hasty.config())
    run_id = (await hasty.save(session, {"content": "x"})).json()["workflow_id"]
    body = {"outcome": "cancelled", "step_count": 1}
    await hasty.ask("POST", f"/api/app/agents/sessions/{session.uuid}/end", json=body)

    refused = [
        await until_refused(hasty, session),
        await hasty.load(session),
        await hasty.ask("GET", f"/api/workflows/{run_id}", token=session.token),
    ]

    assert [(answer.status_code, answer.content) for answer in refused] == [(401, UNAUTHENTICATED)] * 3
    assert (await hasty.ask("GET", f"/api/workflows/{run_id}")).status_code == 200


async def test_a_session_that_ended_on_the_bus_is_shut_out_as_well(hasty: Asking) -> None:
    config = await hasty.config()
    session, other = await hasty.session(config), await hasty.session(config)
    async with hasty.database.begin() as connection:
        ended = SessionOutcome(
            hasty.organization_uuid, session.uuid, config, "success", datetime.now(UTC), uuid4()
        )
        await sessions.apply_outcomes(connection, [ended])

    refused = await until_refused(hasty, session)

    assert (refused.status_code, refused.content) == (401, UNAUTHENTICATED)
    assert (await hasty.save(other, {"content": "still there"})).status_code == 202


async def test_an_old_token_saves_on_the_bus_while_nobody_can_say_whether_its_session_ended(
    bootstrap_servers: str, topics: str
) -> None:
    tokens = SessionTokens([TOKEN_SECRET], lifetime=timedelta(hours=2))
    token, _ = tokens.mint(CLAIMS, now=datetime.now(UTC) - timedelta(hours=1))
    database = f"postgresql://nobody@{NOBODY}/none"

    async with (
        serving(database, accept="bus", bootstrap_servers=bootstrap_servers, topic_prefix=topics) as url,
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=30.0) as client,
    ):
        answer = await client.post(
            f"/api/agents/sessions/{SESSION}/memory-save",
            json={"content": "kept all the same"},
            headers={"authorization": f"Agent {token}"},
        )

    assert answer.status_code == 202
