"""`Idempotency-Key` on every POST: the first answer again, and nothing counted twice (SPEC.md section 8; case c10)."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from lorebus_domain.visibility import NoCaller
from lorebus_gateway.answers import Answer
from lorebus_gateway.errors import RequestInHandError
from lorebus_gateway.idempotency import Idempotency, Once, once
from lorebus_kit.keys import create_key
from lorebus_kit.tokens import SessionClaims, SessionTokens
from lorebus_store import idempotency
from tests.support.bus import records_of
from tests.support.databases import database_away
from tests.support.gateways import NOBODY, TOKEN_SECRET, Asking, Registered, running_gateway, serving

APP = "/api/app/agents"
BOB = {"kind": "end_user", "ref": "bob"}
KEY = {"idempotency-key": "k-1"}


async def events_of(gateway: Asking) -> list[dict[str, Any]]:
    rows = await gateway.rows("SELECT payload FROM lorebus.outbox ORDER BY id")
    return [json.loads(row["payload"]) for row in rows]


async def a_session(gateway: Asking) -> Registered:
    return await gateway.session(await gateway.config(), BOB)


def replayed(answer: httpx.Response) -> bool:
    return bool(answer.headers.get("idempotency-replayed") == "true")


async def test_a_save_that_is_sent_again_gets_the_first_answer_and_counts_once(gateway: Asking) -> None:
    session = await a_session(gateway)

    first = await gateway.save(session, {"content": "likes tea"}, headers=KEY)
    again = await gateway.save(session, {"content": "likes tea"}, headers=KEY)

    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json() == again.json()
    assert first.headers["location"] == again.headers["location"]
    assert (replayed(first), replayed(again)) == (False, True)
    assert len(await events_of(gateway)) == 1


async def test_the_same_key_with_another_body_is_a_conflict(gateway: Asking) -> None:
    session = await a_session(gateway)
    await gateway.save(session, {"content": "likes tea"}, headers=KEY)

    answer = await gateway.save(session, {"content": "likes coffee"}, headers=KEY)

    assert answer.status_code == 409
    assert answer.json()["type"] == "urn:lorebus:problem:idempotency-key-reused"
    assert len(await events_of(gateway)) == 1


async def test_a_key_is_one_of_its_session_its_organization_and_its_route(gateway: Asking) -> None:
    config = await gateway.config()
    one, two = await gateway.session(config, BOB), await gateway.session(config, BOB)
    foreign = await create_key(gateway.database, uuid4(), name="foreign")

    saves = [await gateway.save(session, {"content": "x"}, headers=KEY) for session in (one, two)]
    load = await gateway.ask(
        "POST", f"/api/agents/sessions/{one.uuid}/memory-load", token=one.token, json={}, headers=KEY
    )
    ends = [
        await gateway.ask(
            "POST",
            f"{APP}/sessions/{session.uuid}/end",
            json={"outcome": "other", "step_count": 1},
            headers=KEY,
        )
        for session in (one, two)
    ]
    elsewhere = await gateway.ask(
        "POST",
        f"{APP}/sessions/{one.uuid}/end",
        key=foreign,
        json={"outcome": "success", "step_count": 9},
        headers=KEY,
    )

    answers = [*saves, load, *ends, elsewhere]
    assert [answer.status_code for answer in answers] == [202, 202, 200, 202, 202, 404]
    assert not any(map(replayed, answers))
    assert saves[0].json()["workflow_id"] != saves[1].json()["workflow_id"]


async def test_a_load_is_answered_as_it_first_was_though_there_is_more_now(gateway: Asking) -> None:
    config = await gateway.config()
    await gateway.remember(config, "likes tea", principal="bob")
    session = await gateway.session(config, BOB)
    path = f"/api/agents/sessions/{session.uuid}/memory-load"

    first = await gateway.ask("POST", path, token=session.token, json={}, headers=KEY)
    await gateway.remember(config, "likes cake", principal="bob")
    again = await gateway.ask("POST", path, token=session.token, json={}, headers=KEY)

    assert first.json()["memory"] == "likes tea"
    assert first.json() == again.json()
    assert replayed(again)


async def test_a_session_is_registered_once_with_the_same_token_which_is_not_kept(gateway: Asking) -> None:
    config = await gateway.config()
    await gateway.remember(config, "likes tea", principal="bob")
    body = {"agent_config_uuid": str(config), "caller": BOB, "task": "brew", "load": True}

    first = await gateway.ask("POST", f"{APP}/sessions", json=body, headers=KEY)
    again = await gateway.ask("POST", f"{APP}/sessions", json=body, headers=KEY)

    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    (kept,) = await gateway.rows("SELECT * FROM lorebus.idempotency_keys")
    assert first.json()["token"].encode() not in kept["response"]
    assert len(await gateway.rows("SELECT session_uuid FROM lorebus.sessions")) == 1


@pytest.mark.parametrize(
    "what", ["end", "rating", "prune", "start-prune", "start-save", "start-load", "dry-run", "erase"]
)
async def test_every_other_post_gives_its_first_answer_again(gateway: Asking, what: str) -> None:
    config = await gateway.config()
    session = await gateway.session(config, BOB)
    path, body = post_of(gateway, config, session)[what]

    answers = [await gateway.ask("POST", path, json=body, headers=KEY) for _ in range(3)]

    assert answers[0].is_success
    assert [answer.status_code for answer in answers] == [answers[0].status_code] * 3
    assert [answer.json() for answer in answers] == [answers[0].json()] * 3
    assert [replayed(answer) for answer in answers] == [False, True, True]
    assert [answer.headers.get("location") for answer in answers] == [answers[0].headers.get("location")] * 3
    if what in {"dry-run", "erase"}:
        return

    async def is_told() -> bool:
        return bool(await events_of(gateway))

    # A recall is told of behind its answer.
    await gateway.until(is_told)
    assert len({event["event_id"] for event in await events_of(gateway)}) == 1


def post_of(
    gateway: Asking, config: UUID, session: Registered
) -> Mapping[str, tuple[str, dict[str, object]]]:
    ids = {"organization_uuid": str(gateway.organization_uuid), "agent_config_uuid": str(config)}
    of_session = ids | {"session_uuid": str(session.uuid)}

    def start(kind: str, data: Mapping[str, object]) -> tuple[str, dict[str, object]]:
        return "/api/workflows/start", {"workflow_type": kind, "initial_data": data}

    return {
        "end": (f"{APP}/sessions/{session.uuid}/end", {"outcome": "success", "step_count": 3}),
        "rating": (f"{APP}/sessions/{session.uuid}/rating", {"quality_score": 0.9}),
        "prune": (f"{APP}/memory/prune", {"agent_config_uuid": str(config), "max_entries": 3}),
        "dry-run": (f"{APP}/memory/prune", {"agent_config_uuid": str(config), "dry_run": True}),
        "erase": (f"{APP}/memory/erase", {"session_uuid": str(session.uuid)}),
        "start-prune": start("agents.memory-prune", ids),
        "start-save": start("agents.memory-save", of_session | {"entries": [{"text": "likes tea"}]}),
        "start-load": start("agents.memory-load", of_session),
    }


async def test_of_twenty_at_once_one_is_carried_out(gateway: Asking) -> None:
    session = await a_session(gateway)

    answers = await asyncio.gather(
        *(gateway.save(session, {"content": "likes tea"}, headers=KEY) for _ in range(20))
    )

    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["workflow_id"] for answer in answers}) == 1
    assert sorted(map(replayed, answers)) == [False] + [True] * 19
    assert len(await events_of(gateway)) == 1


async def test_a_save_whose_answer_was_not_kept_is_the_same_run_when_it_comes_again(gateway: Asking) -> None:
    session = await a_session(gateway)
    first = await gateway.save(session, {"content": "likes tea"}, headers=KEY)
    # As after a crash between the acceptance and the keeping of the answer, a minute ago.
    async with gateway.database.begin() as connection:
        await connection.exec_driver_sql(
            "UPDATE lorebus.idempotency_keys SET status = NULL, response = NULL, created_at = now() - interval '61 s'"
        )

    again = await gateway.save(session, {"content": "likes tea"}, headers=KEY)

    assert again.json() == first.json()
    assert not replayed(again)
    assert len(await gateway.rows("SELECT id FROM lorebus.workflow_runs")) == 1
    assert {event["event_id"] for event in await events_of(gateway)} == {first.json()["workflow_id"]}


async def test_what_was_refused_frees_the_key(gateway: Asking) -> None:
    config = uuid4()
    body = {"agent_config_uuid": str(config)}

    refused = await gateway.ask("POST", f"{APP}/memory/prune", json=body, headers=KEY)
    await gateway.ask("PUT", f"{APP}/configs/{config}", json={})
    answer = await gateway.ask("POST", f"{APP}/memory/prune", json=body, headers=KEY)

    assert (refused.status_code, answer.status_code) == (404, 202)


async def test_a_request_without_a_key_keeps_nothing(gateway: Asking) -> None:
    session = await a_session(gateway)

    first = await gateway.save(session, {"content": "likes tea"})
    second = await gateway.save(session, {"content": "likes tea"})

    assert first.json() != second.json()
    assert not await gateway.rows("SELECT key FROM lorebus.idempotency_keys")


@pytest.mark.parametrize(
    "headers",
    [
        [("idempotency-key", "")],
        [("idempotency-key", '""')],
        [("idempotency-key", "k" * 256)],
        [("idempotency-key", "k\tk")],
        [("idempotency-key", b"k\xc3\xa4")],
        [("idempotency-key", "a"), ("idempotency-key", "a")],
    ],
)
async def test_a_key_that_is_none_is_refused(gateway: Asking, headers: list[tuple[str, str]]) -> None:
    session = await a_session(gateway)

    answer = await gateway.client.post(
        f"/api/agents/sessions/{session.uuid}/memory-save",
        json={"content": "likes tea"},
        headers=[("authorization", f"Agent {session.token}"), *headers],
    )

    assert answer.status_code == 422
    (fault,) = answer.json()["faults"]
    assert fault["path"] == "Idempotency-Key"
    assert "1 to 255" in fault["problem"]
    assert not await events_of(gateway)


@pytest.mark.parametrize("key", ["k" * 255, "order 66, try 2", '"quoted"', "{}"])
async def test_a_key_may_have_255_printable_characters_and_is_not_kept_itself(
    gateway: Asking, key: str
) -> None:
    session = await a_session(gateway)

    answers = [
        await gateway.save(session, {"content": "x"}, headers={"idempotency-key": key}) for _ in range(2)
    ]

    assert [replayed(answer) for answer in answers] == [False, True]
    (kept,) = await gateway.rows("SELECT * FROM lorebus.idempotency_keys")
    assert len(kept["key"]) == 64


async def test_a_quoted_key_is_the_same_as_the_bare_one(gateway: Asking) -> None:
    session = await a_session(gateway)

    await gateway.save(session, {"content": "x"}, headers={"idempotency-key": 'a "b"'})
    again = await gateway.save(session, {"content": "x"}, headers={"idempotency-key": r'"a \"b\""'})

    assert replayed(again)


async def test_a_put_takes_no_notice_of_a_key(gateway: Asking) -> None:
    path = f"{APP}/configs/{uuid4()}"

    await gateway.ask("PUT", path, json={"memory_top_k": 3}, headers=KEY)
    answer = await gateway.ask("PUT", path, json={"memory_top_k": 4}, headers=KEY)

    assert (answer.status_code, answer.json()["memory_top_k"]) == (200, 4)


def a_request(organization_uuid: UUID) -> Once:
    return once(
        "k", organization_uuid=organization_uuid, session_uuid=None, route="POST /x", path={}, body=b"{}"
    )


async def never(_request: Once) -> Answer:
    raise AssertionError("this is not to be carried out")


async def test_a_repeat_while_the_first_is_in_hand_waits_for_its_answer(gateway: Asking) -> None:
    keeper = Idempotency(gateway.database)
    request = a_request(gateway.organization_uuid)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_request: Once) -> Answer:
        begun.set()
        await go_on.wait()
        return Answer(202, b'{"workflow_id": null}')

    first = asyncio.create_task(keeper.answer(request, slow))
    await begun.wait()
    second = asyncio.create_task(keeper.answer(request, never))
    await asyncio.wait([second], timeout=0.1)
    assert not second.done()
    go_on.set()

    assert (await first).body == (await second).body


async def test_a_repeat_is_told_to_come_again_when_the_first_takes_too_long(gateway: Asking) -> None:
    request = a_request(gateway.organization_uuid)
    async with gateway.database.begin() as connection:
        await idempotency.reserve(connection, **request.place, body_hash=request.body_hash)

    with pytest.raises(RequestInHandError):
        await Idempotency(gateway.database, wait_seconds=0.1).answer(request, never)


async def test_an_answer_too_large_to_be_kept_is_given_anew(gateway: Asking) -> None:
    keeper = Idempotency(gateway.database)
    request = a_request(gateway.organization_uuid)
    bodies = [b'{"memory": "' + bytes([letter]) * 1_048_576 + b'"}' for letter in b"ab"]

    async def answered(body: bytes) -> Answer:
        async def work(_request: Once) -> Answer:
            return Answer(200, body)

        return await keeper.answer(request, work)

    assert [(await answered(body)).body for body in bodies] == bodies


async def test_on_the_bus_the_run_of_a_key_is_there_at_once_for_its_session_alone(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    async with running_gateway(
        database_url, accept="bus", bootstrap_servers=bootstrap_servers, topic_prefix=topics
    ) as on_bus:
        session, other = await a_session(on_bus), await a_session(on_bus)
        answers = [await on_bus.save(session, {"content": "likes tea"}, headers=KEY) for _ in range(2)]
        run = f"/api/workflows/{answers[0].json()['workflow_id']}"
        told = [await on_bus.ask("GET", run, token=one.token) for one in (session, other)]

        assert [answer.json() for answer in answers] == [answers[0].json()] * 2
        assert [answer.status_code for answer in told] == [200, 404]
        assert told[0].json()["state_name"] == "initiated"
        assert len(await records_of(bootstrap_servers, topics + "memory.save-requested")) == 1


async def test_a_run_accepted_while_the_store_was_away_is_shown_once_it_is_back(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    async with running_gateway(
        database_url, accept="bus", bootstrap_servers=bootstrap_servers, topic_prefix=topics
    ) as on_bus:
        session = await a_session(on_bus)
        async with database_away(database_url):
            answer = await on_bus.save(session, {"content": "likes tea"}, headers=KEY)
        run = f"/api/workflows/{answer.json()['workflow_id']}"

        async def is_shown() -> bool:
            return (await on_bus.ask("GET", run, token=session.token)).status_code == 200

        assert answer.status_code == 202
        await on_bus.until(is_shown)


async def test_on_the_bus_a_save_is_accepted_while_the_store_is_away_and_a_repeat_is_the_same_event(
    bootstrap_servers: str, topics: str
) -> None:
    session_uuid = uuid4()
    claims = SessionClaims(uuid4(), uuid4(), session_uuid, NoCaller())
    tokens = SessionTokens([TOKEN_SECRET], lifetime=timedelta(minutes=5))
    headers = KEY | {"authorization": f"Agent {tokens.mint(claims, now=datetime.now(UTC))[0]}"}

    async with (
        serving(
            f"postgresql://nobody@{NOBODY}/none",
            accept="bus",
            bootstrap_servers=bootstrap_servers,
            topic_prefix=topics,
        ) as url,
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=30.0) as client,
    ):
        path = f"/api/agents/sessions/{session_uuid}/memory-save"
        bodies = ({"content": "one"}, {"content": "one"}, {"content": "two"})
        answers = [await client.post(path, json=body, headers=headers) for body in bodies]

    assert [answer.status_code for answer in answers] == [202, 202, 202]
    ids = [answer.json()["workflow_id"] for answer in answers]
    assert (ids[0] == ids[1], ids[0] == ids[2]) == (True, False)
    records = await records_of(bootstrap_servers, topics + "memory.save-requested")
    assert [json.loads(record)["event_id"] for record in records] == ids
