"""Saves as a client sees them, carried out by the real consumer: results per entry, and counted once (case c10)."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from tests.support.event_streams import event_stream
from tests.support.gateways import Asking, Registered, running_gateway
from tests.support.services import services

WAIT = {"prefer": "wait=30"}
KEY = {"idempotency-key": "k-1"}
FAILURE = {
    "error",
    "error_type",
    "failed_at",
    "failed_at_state",
    "failed_layer",
    "failed_step",
    "failure_reason",
}


@pytest.fixture
async def whole(database_url: str, bootstrap_servers: str, topics: str) -> AsyncIterator[Asking]:
    """A gateway that accepts on the bus, and a save consumer."""
    async with (
        services("save", database_url=database_url, bootstrap_servers=bootstrap_servers, topic_prefix=topics),
        running_gateway(
            database_url, accept="bus", bootstrap_servers=bootstrap_servers, topic_prefix=topics
        ) as gateway,
    ):
        yield gateway


async def a_session(gateway: Asking) -> Registered:
    return await gateway.session(await gateway.config(), {"kind": "end_user", "ref": "bob"})


async def test_a_finished_save_says_of_each_entry_what_became_of_it(whole: Asking) -> None:
    session = await a_session(whole)
    entries: list[dict[str, object]] = [
        {"text": "likes tea"},
        {"text": "Likes  tea."},
        {"text": "hardly matters", "importance": 0.05},
        {"text": " ... "},
        {"text": "likes aisles", "importance": 0.9},
    ]

    first = await whole.save(session, {"entries": entries}, headers=WAIT)
    second = await whole.save(session, {"content": "LIKES TEA"}, headers=WAIT)

    assert (first.status_code, second.status_code) == (200, 200)
    told = first.json()["state_data"]
    assert (told["saved"], told["reinforced"], told["skipped"]) == (2, 1, 2)
    assert [(r["position"], r["outcome"], r.get("reason")) for r in told["results"]] == [
        (0, "saved", None),
        (1, "reinforced", None),
        (2, "skipped", "low_importance"),
        (3, "skipped", "empty_text"),
        (4, "saved", None),
    ]
    ids = [result.get("memory_id") for result in told["results"]]
    assert (ids[0] == ids[1], ids[2], ids[3]) == (True, None, None)
    (again,) = second.json()["state_data"]["results"]
    assert again == {"position": 0, "outcome": "reinforced", "memory_id": ids[0]}


async def test_a_save_that_nobody_may_have_says_why(whole: Asking) -> None:
    session = await whole.session(await whole.config(), {"kind": "end_user", "ref": None})

    run = (await whole.save(session, {"content": "likes tea"}, headers=WAIT)).json()

    assert run["state_name"] == "completed"
    assert (run["state_data"]["skipped_reason"], run["state_data"]["saved"]) == ("unidentified_end_user", 0)


async def test_a_save_that_fails_carries_all_seven_fields_and_those_behind_it_are_kept(whole: Asking) -> None:
    session = await a_session(whole)
    async with whole.database.begin() as connection:
        await connection.exec_driver_sql(
            "ALTER TABLE lorebus.memories ADD CONSTRAINT no_poison CHECK (text <> 'poison')"
        )

    answers = [
        await whole.save(session, {"content": text}, headers={"prefer": "wait=0"})
        for text in ("poison", "likes tea", "likes aisles")
    ]
    runs = [answer.json()["workflow_id"] for answer in answers]
    failed = (await ended(whole, runs[0], session))["state_data"]

    assert {name: failed[name] for name in FAILURE - {"error", "failed_at"}} == {
        "error_type": "PermanentError",
        "failed_at_state": "run",
        "failed_layer": "consumer",
        "failed_step": "run",
        "failure_reason": "dead_lettered",
    }
    assert failed["error"]
    assert datetime.fromisoformat(failed["failed_at"]).tzinfo is not None
    assert [(await ended(whole, run, session))["state_name"] for run in runs[1:]] == ["completed"] * 2
    history = await whole.ask("GET", f"/api/workflows/{runs[0]}/history", token=session.token)
    assert [step["state_name"] for step in history.json()["history"]] == ["initiated", "failed"]


async def ended(gateway: Asking, run_id: str, session: Registered) -> dict[str, Any]:
    """The run once it has ended, as its watch tells it."""
    async with event_stream(gateway, f"/api/workflows/{run_id}/watch", token=session.token) as stream:
        return (await stream.rest())[-1]


async def test_fifty_tries_of_one_save_are_one_entry_even_if_the_answer_is_lost(whole: Asking) -> None:
    session = await a_session(whole)

    tries = [await whole.save(session, {"content": "likes tea"}, headers=KEY | WAIT)]
    # As if the gateway had died between accepting it and keeping the answer.
    async with whole.database.begin() as connection:
        await connection.exec_driver_sql("DELETE FROM lorebus.idempotency_keys")
    tries += await asyncio.gather(
        *(whole.save(session, {"content": "likes tea"}, headers=KEY | WAIT) for _ in range(49))
    )
    await whole.save(session, {"content": "likes aisles"}, headers=WAIT)

    assert {answer.status_code for answer in tries} == {200}
    assert len({answer.json()["workflow_id"] for answer in tries}) == 1
    rows = await whole.rows("SELECT text, reinforcement_count FROM lorebus.memories ORDER BY text")
    assert [(row["text"], row["reinforcement_count"]) for row in rows] == [
        ("likes aisles", 0),
        ("likes tea", 0),
    ]
