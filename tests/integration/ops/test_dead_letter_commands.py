"""`lorebus dlq`: letters found, understood, replayed and dropped, on a real broker."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lorebus_contracts.topics import DISTILL_GROUP, LABELS_GROUP, SAVE_GROUP, SAVE_REQUESTED
from lorebus_kit.run_ids import distill_run_id
from lorebus_store.erasures import Subject
from lorebus_store.settings import put_organization
from tests.support.commands import Shell, shell
from tests.support.databases import ArrangedDatabase
from tests.support.erased import erase, traces
from tests.support.events import end_user, ended, new_scope, save
from tests.support.letters import leave_letter
from tests.support.memory import ended_run, entries_of, find_run, known_scope
from tests.support.running import running
from tests.support.waiting import eventually
from tests.support.wire import Wire

DEAD = "memory.save-requested.lorebus.save.dlq"


@dataclass(frozen=True, slots=True)
class Desk:
    """Where an operator sits: a shell, the wire and the database behind it."""

    shell: Shell
    wire: Wire
    database: ArrangedDatabase

    async def waiting(self, *words: str) -> list[dict[str, str]]:
        """The letters that `list` tells of."""
        answer = await self.shell.lorebus("dlq", "list", "--json", *words)
        assert answer.code == 0, answer.errors
        found: list[dict[str, str]] = answer.json["letters"]
        return found


@pytest.fixture
async def desk(database_url: str, bootstrap_servers: str, topics: str, tmp_path: Path) -> AsyncIterator[Desk]:
    database = ArrangedDatabase(database_url)
    there = shell(tmp_path, database_url=database_url, bootstrap_servers=bootstrap_servers, prefix=topics)
    async with Wire(bootstrap_servers, topics) as wire:
        yield Desk(there, wire, database)
    await database.dispose()


async def test_a_letter_is_listed_by_its_conditions_and_shown_without_its_text(desk: Desk) -> None:
    scope = new_scope()
    event = save(scope, "the cat is called Schnurri")
    await leave_letter(desk.wire, event, SAVE_GROUP, headers=[("trace", b"abc")])
    await leave_letter(desk.wire, save(new_scope(), "another"), SAVE_GROUP)

    found = await desk.waiting("--organization", str(scope.organization_uuid))
    nothing = await desk.waiting("--error-type", "WireError")
    shown = await desk.shell.lorebus("dlq", "show", found[0]["letter"])
    whole = await desk.shell.lorebus("dlq", "show", found[0]["letter"], "--show-text", "--json")

    assert [(one["event_id"], one["error_type"], one["error_text"]) for one in found] == [
        (str(event.event_id), "RejectedError", "unknown_organization")
    ]
    assert nothing == []
    assert f"lorebus keys create --organization {scope.organization_uuid}" in shown.output
    assert "Schnurri" not in shown.output
    assert (whole.json["headers"], whole.json["origin"]) == ({"trace": "abc"}, "memory.save-requested/1/17")
    assert "Schnurri" in whole.json["value"]


async def test_what_is_about_somebody_who_was_erased_is_not_replayed(desk: Desk) -> None:
    scope = await known_scope(desk.database)
    await leave_letter(desk.wire, save(scope, "bob's", caller=end_user("bob")), SAVE_GROUP)
    await leave_letter(desk.wire, save(scope, "ann's", caller=end_user("ann")), SAVE_GROUP)
    await erase(desk.database, scope.organization_uuid, Subject.principal("bob"))

    answer = await desk.shell.lorebus("dlq", "replay", "--all", "--yes", "--json")

    sent = await desk.wire.read(SAVE_REQUESTED.name)
    assert (answer.code, len(answer.json["replayed"])) == (1, 1)
    assert [one["why"] for one in answer.json["not"]] == [
        "it is about somebody, or a session, that was erased"
    ]
    assert [b"ann's" in (record.value or b"") for record in sent] == [True]


async def test_however_a_letter_of_somebody_who_was_erased_is_replayed_nothing_of_it_comes_back(
    desk: Desk, database_url: str, bootstrap_servers: str, topics: str
) -> None:
    scope = await known_scope(desk.database)
    event = save(scope, "Schnurri is the cat of ann-4711", caller=end_user("ann-4711"))
    await leave_letter(desk.wire, event, SAVE_GROUP)
    await erase(desk.database, scope.organization_uuid, Subject.principal("ann-4711"))
    (letter,) = await desk.waiting()

    async with running("save", database_url=database_url, bootstrap_servers=bootstrap_servers, topics=topics):
        shown = await desk.shell.lorebus("dlq", "show", letter["letter"])
        by_place = await desk.shell.lorebus("dlq", "replay", letter["letter"], "--yes")
        # As somebody does who copies records with a tool of Kafka's.
        await desk.wire.send(event)
        run = await ended_run(desk.database, scope, event.event_id)
        await desk.wire.settled(SAVE_GROUP, SAVE_REQUESTED)
        dropped = await desk.shell.lorebus("dlq", "drop", letter["letter"], "--yes")

    assert (shown.code, by_place.code, dropped.code) == (0, 1, 0)
    assert "Schnurri" not in shown.output
    assert (run.state_name, run.state_data["skipped_reason"]) == ("completed", "erased")
    assert await entries_of(desk.database, scope) == ()
    assert await traces(desk.database, "Schnurri", "ann-4711") == []
    assert await desk.waiting() == []


async def test_a_letter_that_would_be_lost_by_its_replay_is_kept_until_its_agent_config_is_known(
    desk: Desk,
) -> None:
    scope = new_scope()
    event = save(scope, "ask before you change a seat")
    await leave_letter(desk.wire, event, SAVE_GROUP)
    (letter,) = await desk.waiting()
    shown = await desk.shell.lorebus("dlq", "show", letter["letter"], "--json")
    async with desk.database.begin() as connection:
        await put_organization(connection, scope.organization_uuid)

    too_early = await desk.shell.lorebus("dlq", "replay", letter["letter"], "--yes", "--json")
    still_waiting = await desk.waiting()
    await known_scope(desk.database, scope=scope)
    replayed = await desk.shell.lorebus("dlq", "replay", letter["letter"], "--yes", "--json")

    assert shown.json["workflow_id"] == str(event.event_id)
    assert f"PUT /api/app/agents/configs/{scope.agent_config_uuid}" in shown.json["advice"]
    assert (too_early.code, too_early.json["replayed"]) == (1, [])
    assert "nobody has made its agent config known" in too_early.json["not"][0]["why"]
    assert still_waiting == [letter]
    assert (replayed.code, replayed.json["replayed"]) == (0, [letter["letter"]])


async def test_the_letter_of_a_sessions_end_names_the_distill_that_it_would_start(desk: Desk) -> None:
    event = ended(new_scope())
    await leave_letter(desk.wire, event, DISTILL_GROUP)
    await leave_letter(desk.wire, event, LABELS_GROUP)

    shown = {
        one["group"]: (await desk.shell.lorebus("dlq", "show", one["letter"], "--json")).json["workflow_id"]
        for one in await desk.waiting()
    }

    assert shown == {
        "lorebus.distill": str(distill_run_id(event.session_uuid)),
        "lorebus.labels": None,
    }


async def test_a_letter_that_no_consumer_could_read_is_not_replayed_but_dropped(desk: Desk) -> None:
    await leave_letter(desk.wire, save(new_scope(), "x"), SAVE_GROUP, value=b"{")
    await leave_letter(desk.wire, save(new_scope(), "y"), SAVE_GROUP, headers=[("trace", b"\xff")])

    refused = await desk.shell.lorebus("dlq", "replay", "--all", "--yes", "--json")
    dropped = await desk.shell.lorebus("dlq", "drop", "--topic", DEAD, "--yes", "--json")

    assert (refused.code, refused.json["replayed"], len(refused.json["not"])) == (1, [], 2)
    assert (dropped.code, len(dropped.json["dropped"])) == (0, 2)
    assert await desk.waiting() == []
    assert [one["handled"] for one in await desk.waiting("--handled")] == ["dropped", "dropped"]
    assert await desk.wire.read(SAVE_REQUESTED.name) == []


async def test_without_yes_nothing_happens_and_without_a_condition_nothing_is_asked_of_all(
    desk: Desk,
) -> None:
    scope = await known_scope(desk.database)
    await leave_letter(desk.wire, save(scope, "a lesson"), SAVE_GROUP)

    unasked = await desk.shell.lorebus("dlq", "replay", "--yes")
    dry = await desk.shell.lorebus("dlq", "replay", "--topic", SAVE_REQUESTED.name)
    unknown = await desk.shell.lorebus("dlq", "replay", f"{DEAD}/0/99", "--yes")

    assert (unasked.code, dry.code, unknown.code) == (2, 0, 1)
    assert "1 would be replayed; give --yes to do it" in dry.output
    assert len(await desk.waiting()) == 1
    assert await desk.wire.read(SAVE_REQUESTED.name) == []


async def test_a_letter_that_is_replayed_twice_applies_once_and_keeps_its_bytes(
    desk: Desk, database_url: str, bootstrap_servers: str, topics: str
) -> None:
    scope = await known_scope(desk.database)
    event = save(scope, "bring an umbrella")
    await leave_letter(desk.wire, event, SAVE_GROUP, headers=[("trace", b"abc")])
    (waiting,) = await desk.waiting()
    async with running("save", database_url=database_url, bootstrap_servers=bootstrap_servers, topics=topics):
        first = await desk.shell.lorebus("dlq", "replay", waiting["letter"], "--yes")
        again = await desk.shell.lorebus("dlq", "replay", waiting["letter"], "--handled", "--yes")
        await eventually(lambda: find_run(desk.database, scope, event.event_id), what="the save is done")
        await desk.wire.settled(SAVE_GROUP, SAVE_REQUESTED)

    (entry,) = await entries_of(desk.database, scope)
    sent = await desk.wire.read(SAVE_REQUESTED.name)
    replayed_from = ("lorebus-replayed-from", waiting["letter"].encode())
    assert (first.code, again.code) == (0, 0)
    assert (entry.text, entry.reinforcement_count) == ("bring an umbrella", 0)
    assert [(record.key, record.value, list(record.headers)) for record in sent] == [
        (event.key(), event.model_dump_json().encode(), [("trace", b"abc"), replayed_from])
    ] * 2
    assert await desk.waiting() == []


async def test_a_replayed_letter_that_is_set_aside_again_says_where_it_has_been(
    desk: Desk, database_url: str, bootstrap_servers: str, topics: str
) -> None:
    await leave_letter(desk.wire, save(new_scope(), "of an organization that nobody knows"), SAVE_GROUP)
    (waiting,) = await desk.waiting()
    async with running("save", database_url=database_url, bootstrap_servers=bootstrap_servers, topics=topics):
        await desk.shell.lorebus("dlq", "replay", waiting["letter"], "--yes")
        (again,) = await eventually(desk.waiting, what="it is set aside again")

    shown = await desk.shell.lorebus("dlq", "show", again["letter"], "--json")
    assert again["letter"] != waiting["letter"]
    assert shown.json["headers"] == {"lorebus-replayed-from": waiting["letter"]}
    assert shown.json["error_text"] == "unknown_organization"
