"""`lorebus dlq`: letters found, understood, replayed and dropped, on a real broker."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from lorebus_contracts.topics import SAVE_GROUP, SAVE_REQUESTED
from lorebus_store import erasing, erasures, locks
from lorebus_store.erasures import Counts, Erasure, Subject
from tests.support.commands import Shell, shell
from tests.support.databases import ArrangedDatabase
from tests.support.events import Scope, end_user, new_scope, save
from tests.support.letters import leave_letter
from tests.support.memory import entries_of, find_run, known_scope
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


async def erase(database: ArrangedDatabase, scope: Scope, principal: str) -> None:
    """Erase a principal as the gateway does."""
    at, subject = datetime.now(UTC), Subject.principal(principal)
    async with database.begin() as connection:
        await locks.lock_organization(connection, scope.organization_uuid)
        await erasing.erase(connection, erasing.Wish(scope.organization_uuid, subject), at=at)
        marker = Erasure(
            *(scope.organization_uuid, uuid4(), subject.kind, subject.hashed(scope.organization_uuid), None),
            *(at, Counts()),
        )
        await erasures.record(connection, marker)


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
    await erase(desk.database, scope, "bob")

    answer = await desk.shell.lorebus("dlq", "replay", "--all", "--yes", "--json")

    sent = await desk.wire.read(SAVE_REQUESTED.name)
    assert (answer.code, len(answer.json["replayed"])) == (1, 1)
    assert [one["why"] for one in answer.json["not"]] == [
        "it is about somebody, or a session, that was erased"
    ]
    assert [b"ann's" in (record.value or b"") for record in sent] == [True]


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
