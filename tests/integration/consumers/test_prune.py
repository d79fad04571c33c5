"""The prune consumer as a process, beside a save consumer, on a real PostgreSQL and a real broker."""

import asyncio
import json
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import pytest_asyncio

from lorebus_contracts.events import ChangeKind, PruneRequested
from lorebus_contracts.topics import PRUNE_GROUP, PRUNE_REQUESTED
from lorebus_domain.pruning import prune_key
from tests.integration.consumers.changes import told
from tests.integration.consumers.poisoned import assert_set_aside, send_among_poison
from tests.support.counted import assert_accounted_for
from tests.support.databases import ArrangedDatabase
from tests.support.events import Scope, end_user, entry, new_scope, prune, save
from tests.support.memory import (
    counter_of,
    ended_run,
    entries_of,
    filled,
    find_run,
    known_scope,
    outputs_of,
)
from tests.support.services import Service, services
from tests.support.wire import Wire

pytestmark = pytest.mark.asyncio(loop_scope="module")

IMPORTANCES = (0.5, 0.9, 0.1, 0.5, 0.3)


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def processes(
    shared_database_url: str, bootstrap_servers: str, shared_topics: str
) -> AsyncIterator[tuple[Service, ...]]:
    async with services(
        "prune",
        "prune",
        "save",
        database_url=shared_database_url,
        bootstrap_servers=bootstrap_servers,
        topic_prefix=shared_topics,
    ) as started:
        yield started


async def over_its_cap(database: ArrangedDatabase) -> Scope:
    """An agent config with 130 entries whose cap was then set to 100, so that nobody has asked for a prune yet."""
    scope = await known_scope(database)
    await filled(database, scope, 130, importances=IMPORTANCES)
    return await known_scope(database, scope=scope, max_entries=100)


async def pruned(database: ArrangedDatabase, wire: Wire, event: PruneRequested) -> tuple[int, int]:
    """What the prune says it deleted and left."""
    await wire.send(event)
    scope = Scope(event.organization_uuid, event.agent_config_uuid)
    output = (await ended_run(database, scope, event.event_id)).state_data
    return output["deleted"], output["remaining"]


async def reasons_of(wire: Wire, event: PruneRequested) -> list[bytes | None]:
    """Why the records with this event's key were dead-lettered."""
    letters = await wire.dead_letters(PRUNE_REQUESTED, PRUNE_GROUP)
    return [dict(letter.headers)["lorebus-error-text"] for letter in letters if letter.key == event.key()]


async def test_the_lowest_entries_go_first_then_the_oldest_then_the_lowest_id(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    await filled(database, scope, 30, importances=IMPORTANCES)
    in_order = sorted(
        await entries_of(database, scope), key=lambda one: prune_key(one.importance, one.created_at, one.id)
    )
    assert await pruned(database, wire, prune(scope, 12)) == (18, 12)
    assert {one.id for one in await entries_of(database, scope)} == {one.id for one in in_order[18:]}
    assert {one.importance for one in in_order[:18]} == {0.1, 0.3, 0.5}
    ids = await told(wire, scope, {ChangeKind.SAVED: 30, ChangeKind.PRUNED: 18})
    assert ids[ChangeKind.PRUNED] == {one.id for one in in_order[:18]}


async def test_entries_of_all_principals_count_towards_one_cap(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    events = [save(scope, entry("tip", 0.4), caller=end_user(f"user{number}")) for number in range(4)]
    events.append(save(scope, entry("tip", 0.8)))
    await wire.send(*events)
    await outputs_of(database, scope, [event.event_id for event in events])
    assert await pruned(database, wire, prune(scope, 1)) == (4, 1)
    assert [one.principal_ref for one in await entries_of(database, scope)] == [None]


async def test_without_a_number_of_its_own_a_prune_goes_by_the_configs_cap(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await over_its_cap(database)
    assert await pruned(database, wire, prune(scope)) == (30, 100)
    assert await counter_of(database, scope) == 100


@pytest.mark.parametrize(("max_entries", "expected"), [(0, (7, 0)), (6, (1, 6)), (7, (0, 7)), (1000, (0, 7))])
async def test_a_prune_leaves_at_most_what_was_asked_for(
    database: ArrangedDatabase, wire: Wire, max_entries: int, expected: tuple[int, int]
) -> None:
    scope = await known_scope(database)
    await filled(database, scope, 7)
    assert await pruned(database, wire, prune(scope, max_entries)) == expected
    assert len(await entries_of(database, scope)) == expected[1]
    assert await counter_of(database, scope) == expected[1]


async def test_more_than_a_thousand_entries_go_in_one_prune(database: ArrangedDatabase, wire: Wire) -> None:
    scope = await known_scope(database)
    await filled(database, scope, 2_400, importances=IMPORTANCES)
    assert await pruned(database, wire, prune(scope, 50)) == (2_350, 50)
    ids = await told(wire, scope, {ChangeKind.SAVED: 2_400, ChangeKind.PRUNED: 2_350})
    assert len(ids[ChangeKind.PRUNED]) == 2_350


async def test_of_two_prunes_at_once_one_finds_nothing_left_to_do(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await over_its_cap(database)
    first, second = prune(scope), prune(scope)
    await asyncio.gather(wire.send(first, partition=0), wire.send(second, partition=1))
    outputs = await outputs_of(database, scope, [first.event_id, second.event_id])
    assert sorted((output["deleted"], output["remaining"]) for output in outputs) == [(0, 100), (30, 100)]


async def test_saves_that_arrive_meanwhile_are_safe_and_every_number_stays_true(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await over_its_cap(database)
    saves = [save(scope, entry(f"new {number}", 0.05 + number / 250)) for number in range(200)]
    prunes = [prune(scope) for _ in range(12)]
    for number, event in enumerate(prunes):
        await wire.send(*saves[number * 16 : number * 16 + 16])
        await wire.send(event, partition=number % 2)
    await wire.send(*saves[192:])
    outputs = await outputs_of(database, scope, [event.event_id for event in saves])
    saved = sum(output["saved"] for output in outputs)
    assert saved == 187
    await outputs_of(database, scope, [event.event_id for event in prunes])
    await wire.settled(PRUNE_GROUP, PRUNE_REQUESTED)
    last = await pruned(database, wire, prune(scope))
    await told_to_the_last(wire, scope, saved=130 + 187, kept=100)
    assert last[1] == 100
    assert len(await entries_of(database, scope)) == await counter_of(database, scope) == 100


async def told_to_the_last(wire: Wire, scope: Scope, *, saved: int, kept: int) -> None:
    """The bus was told of each entry that came and of each that went."""
    await told(wire, scope, {ChangeKind.SAVED: saved, ChangeKind.PRUNED: saved - kept})


async def test_the_same_event_again_changes_nothing_and_its_run_keeps_its_numbers(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    await filled(database, scope, 10)
    event = prune(scope, 4)
    assert await pruned(database, wire, event) == (6, 4)
    await filled(database, scope, 10)
    await wire.send(event, event, partition=0)
    await wire.send(event, partition=1)
    await wire.settled(PRUNE_GROUP, PRUNE_REQUESTED)
    assert len(await entries_of(database, scope)) == 10
    output = (await ended_run(database, scope, event.event_id)).state_data
    assert (output["deleted"], output["remaining"]) == (6, 4)


async def test_a_prune_of_an_unknown_organization_is_set_aside_and_nothing_is_written_for_it(
    database: ArrangedDatabase, wire: Wire
) -> None:
    nobody = new_scope()
    event = prune(nobody, 0)
    await wire.send(event)
    await wire.settled(PRUNE_GROUP, PRUNE_REQUESTED)
    assert await reasons_of(wire, event) == [b"unknown_organization"]
    assert await find_run(database, nobody, event.event_id) is None


async def test_a_prune_of_an_unknown_agent_config_completes_without_effect(
    database: ArrangedDatabase, wire: Wire
) -> None:
    mine, theirs = await known_scope(database), await known_scope(database)
    await filled(database, theirs, 3)
    foreign = Scope(mine.organization_uuid, theirs.agent_config_uuid)
    event = prune(foreign, 0)
    await wire.send(event)
    run = await ended_run(database, foreign, event.event_id)
    assert (run.state_name, run.state_data["skipped_reason"]) == ("completed", "unknown_agent_config")
    assert len(await entries_of(database, theirs)) == 3


async def test_less_than_nothing_is_refused(database: ArrangedDatabase, wire: Wire) -> None:
    scope = await known_scope(database)
    await filled(database, scope, 3)
    event = prune(scope, 0)
    body = json.dumps({**event.model_dump(mode="json"), "max_entries": -1}).encode()
    await wire.send_raw(PRUNE_REQUESTED.name, body, key=event.key())
    await wire.settled(PRUNE_GROUP, PRUNE_REQUESTED)
    (reason,) = await reasons_of(wire, event)
    assert reason is not None
    assert reason.startswith(b"max_entries: ")
    assert len(await entries_of(database, scope)) == 3


async def test_poison_among_sound_prunes_is_set_aside_and_the_sound_ones_are_done(
    database: ArrangedDatabase, wire: Wire, shared_topics: str
) -> None:
    scope = await known_scope(database)
    await filled(database, scope, 10)
    before = await wire.dead_letters(PRUNE_REQUESTED, PRUNE_GROUP)
    sound = [prune(scope, 9 - number, event_id=uuid4()) for number in range(10)]
    await send_among_poison(wire, *sound, group=PRUNE_GROUP)
    await wire.settled(PRUNE_GROUP, PRUNE_REQUESTED)
    letters = await wire.dead_letters(PRUNE_REQUESTED, PRUNE_GROUP, count=len(before) + 10)
    new = [letter for letter in letters if letter not in before]
    assert_set_aside(new, sound[0], origin=f"{shared_topics}memory.prune-requested", group=PRUNE_GROUP)
    outputs = await outputs_of(database, scope, [event.event_id for event in sound])
    assert [output["deleted"] for output in outputs] == [1] * 10
    assert await entries_of(database, scope) == ()


async def test_what_is_consumed_is_accounted_for(
    database: ArrangedDatabase, processes: tuple[Service, ...], wire: Wire
) -> None:
    scope = await known_scope(database)
    await wire.send(*[prune(scope) for _ in range(20)])
    await wire.settled(PRUNE_GROUP, PRUNE_REQUESTED)
    assert sum([await assert_accounted_for(service.url) for service in processes[:2]]) >= 20
