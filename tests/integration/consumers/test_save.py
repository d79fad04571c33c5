"""The save consumer as a process, on a real PostgreSQL and a real broker."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import pytest_asyncio

from lorebus_contracts.events import CallerBody, ChangeKind
from lorebus_contracts.topics import SAVE_GROUP, SAVE_REQUESTED
from lorebus_domain.visibility import CallerKind
from tests.integration.consumers.changes import changes_of, told
from tests.integration.consumers.poisoned import assert_set_aside, send_among_poison
from tests.support.counted import assert_accounted_for
from tests.support.databases import ArrangedDatabase, execute
from tests.support.events import UNIDENTIFIED, actor, end_user, entry, new_scope, save
from tests.support.memory import counter_of, ended_run, entries_of, find_run, known_scope, outputs_of
from tests.support.services import Service, services
from tests.support.wire import Wire

pytestmark = pytest.mark.asyncio(loop_scope="module")

SENTENCE = "Always confirm the return date before rebooking."


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def save_processes(
    shared_database_url: str, bootstrap_servers: str, shared_topics: str
) -> AsyncIterator[tuple[Service, ...]]:
    async with services(
        "save",
        "save",
        database_url=shared_database_url,
        bootstrap_servers=bootstrap_servers,
        topic_prefix=shared_topics,
    ) as started:
        yield started


async def test_a_save_keeps_its_entry_and_its_run_says_so(database: ArrangedDatabase, wire: Wire) -> None:
    scope = await known_scope(database)
    event = save(scope, entry("Likes aisle seats.", 0.7), caller=end_user("bob"))
    await wire.send(event)
    run = await ended_run(database, scope, event.event_id)
    (kept,) = await entries_of(database, scope)
    assert (kept.text, kept.importance, kept.principal_ref) == ("Likes aisle seats.", 0.7, "bob")
    assert (kept.reinforcement_count, kept.origin, kept.session_uuid) == (0, "runner", event.session_uuid)
    assert run.state_data == {
        "saved": 1,
        "skipped": 0,
        "reinforced": 0,
        "results": [{"position": 0, "outcome": "saved", "memory_id": str(kept.id)}],
        "session_uuid": str(event.session_uuid),
        "agent_config_uuid": str(scope.agent_config_uuid),
        "organization_uuid": str(scope.organization_uuid),
    }
    assert [step["state_name"] for step in run.history] == ["initiated", "run", "completed"]
    assert await counter_of(database, scope) == 1


async def test_each_entry_of_a_request_has_its_own_result(database: ArrangedDatabase, wire: Wire) -> None:
    scope = await known_scope(database)
    entries = [entry("first"), entry("faint", 0.09), entry("..."), entry("FIRST."), entry("second", 0.1)]
    event = save(scope, *entries)
    await wire.send(event)
    output = (await ended_run(database, scope, event.event_id)).state_data
    ids = {kept.text: str(kept.id) for kept in await entries_of(database, scope)}
    assert output["results"] == [
        {"position": 0, "outcome": "saved", "memory_id": ids["first"]},
        {"position": 1, "outcome": "skipped", "reason": "low_importance"},
        {"position": 2, "outcome": "skipped", "reason": "empty_text"},
        {"position": 3, "outcome": "reinforced", "memory_id": ids["first"]},
        {"position": 4, "outcome": "saved", "memory_id": ids["second"]},
    ]
    assert (output["saved"], output["reinforced"], output["skipped"]) == (2, 1, 2)


async def test_the_importance_of_a_reinforced_entry_goes_to_the_higher_and_never_back(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    for importance in (0.4, 0.9, 0.2):
        event = save(scope, entry(SENTENCE, importance))
        await wire.send(event)
        await ended_run(database, scope, event.event_id)
    (kept,) = await entries_of(database, scope)
    assert (kept.importance, kept.reinforcement_count) == (0.9, 2)


async def test_fifty_saves_of_one_sentence_at_once_are_one_entry_reinforced_forty_nine_times(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    events = [save(scope, SENTENCE) for _ in range(50)]
    for number, event in enumerate(events):
        await wire.send(event, partition=number % 2)
    outputs = await outputs_of(database, scope, [event.event_id for event in events])
    (kept,) = await entries_of(database, scope)
    assert sum(output["saved"] for output in outputs) == 1
    assert sum(output["reinforced"] for output in outputs) == 49
    assert kept.reinforcement_count == 49
    assert await counter_of(database, scope) == 1
    await told(wire, scope, {ChangeKind.SAVED: 1, ChangeKind.REINFORCED: 49})


async def test_the_same_event_again_changes_nothing_alone_or_among_others(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    first, other = save(scope, SENTENCE, "another"), save(scope, SENTENCE)
    await wire.send(first, first, other, partition=0)
    await wire.settled(SAVE_GROUP, SAVE_REQUESTED)
    await wire.send(first, partition=0)
    await wire.send(other, partition=1)
    await wire.settled(SAVE_GROUP, SAVE_REQUESTED)
    outputs = await outputs_of(database, scope, [first.event_id, other.event_id])
    assert [(output["saved"], output["reinforced"]) for output in outputs] == [(2, 0), (0, 1)]
    assert {kept.text: kept.reinforcement_count for kept in await entries_of(database, scope)} == {
        SENTENCE: 1,
        "another": 0,
    }
    assert await counter_of(database, scope) == 2
    await told(wire, scope, {ChangeKind.SAVED: 2, ChangeKind.REINFORCED: 1})


async def test_what_changed_is_told_on_the_bus_with_the_ids_of_the_entries(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    await wire.send(save(scope, "one", "two"))
    ids = await told(wire, scope, {ChangeKind.SAVED: 2})
    assert ids == {ChangeKind.SAVED: {kept.id for kept in await entries_of(database, scope)}}
    (change,) = await changes_of(wire, scope)
    assert change.organization_uuid == scope.organization_uuid


async def test_poison_among_sound_saves_is_set_aside_and_the_sound_ones_are_kept(
    database: ArrangedDatabase, wire: Wire, shared_topics: str
) -> None:
    scope = await known_scope(database)
    before = await wire.dead_letters(SAVE_REQUESTED, SAVE_GROUP)
    sound = [save(scope, f"sound {number}") for number in range(10)]
    await send_among_poison(wire, *sound, group=SAVE_GROUP)
    await wire.settled(SAVE_GROUP, SAVE_REQUESTED)
    letters = await wire.dead_letters(SAVE_REQUESTED, SAVE_GROUP, count=len(before) + 10)
    new = [letter for letter in letters if letter not in before]
    assert_set_aside(new, sound[0], origin=f"{shared_topics}memory.save-requested", group=SAVE_GROUP)
    kept = {entry.text: entry.reinforcement_count for entry in await entries_of(database, scope)}
    assert kept == {f"sound {number}": 0 for number in range(10)}


async def test_a_save_of_an_unknown_organization_is_set_aside_and_nothing_is_written_for_it(
    database: ArrangedDatabase, wire: Wire
) -> None:
    nobody = new_scope()
    event = save(nobody, "somebody's secret")
    await wire.send(event)
    await wire.settled(SAVE_GROUP, SAVE_REQUESTED)
    letters = await wire.dead_letters(SAVE_REQUESTED, SAVE_GROUP)
    told_reasons = [dict(one.headers)["lorebus-error-text"] for one in letters if one.key == event.key()]
    assert told_reasons == [b"unknown_organization"]
    assert await find_run(database, nobody, event.event_id) is None


async def test_a_save_of_an_unknown_agent_config_completes_without_effect(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    strange = new_scope()
    foreign = type(scope)(scope.organization_uuid, strange.agent_config_uuid)
    event = save(foreign, "lost")
    await wire.send(event)
    run = await ended_run(database, foreign, event.event_id)
    assert (run.state_name, run.state_data["skipped_reason"]) == ("completed", "unknown_agent_config")
    assert await entries_of(database, foreign) == ()


async def test_another_organizations_agent_config_is_an_unknown_one(
    database: ArrangedDatabase, wire: Wire
) -> None:
    mine, theirs = await known_scope(database), await known_scope(database)
    event = save(type(mine)(mine.organization_uuid, theirs.agent_config_uuid), "lost")
    await wire.send(event)
    run = await ended_run(database, mine, event.event_id)
    assert run.state_data["skipped_reason"] == "unknown_agent_config"
    assert await entries_of(database, theirs) == ()


@pytest.mark.parametrize(
    ("organization_enabled", "config_enabled"), [(False, True), (True, False), (False, False)]
)
async def test_where_memory_is_off_nothing_is_written(
    database: ArrangedDatabase,
    wire: Wire,
    organization_enabled: bool,  # noqa: FBT001 - A parameter of the test.
    config_enabled: bool,  # noqa: FBT001 - A parameter of the test.
) -> None:
    scope = await known_scope(
        database, organization_enabled=organization_enabled, config_enabled=config_enabled
    )
    event = save(scope, SENTENCE)
    await wire.send(event)
    output = (await ended_run(database, scope, event.event_id)).state_data
    assert (output["skipped_reason"], output["saved"], output["skipped"]) == ("memory_disabled", 0, 0)
    assert await entries_of(database, scope) == ()
    assert await changes_of(wire, scope) == []


@pytest.mark.parametrize("ref", [None, "", "   "])
async def test_an_end_user_whom_nobody_could_name_has_nothing_written(
    database: ArrangedDatabase, wire: Wire, ref: str | None
) -> None:
    scope = await known_scope(database)
    caller = CallerBody(kind=CallerKind.END_USER, ref=ref)
    event = save(scope, SENTENCE, caller=caller)
    await wire.send(event)
    output = (await ended_run(database, scope, event.event_id)).state_data
    assert output["skipped_reason"] == "unidentified_end_user"
    assert await entries_of(database, scope) == ()


async def test_an_unidentified_end_user_writes_to_nobody_however_the_save_names_somebody(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    event = save(scope, SENTENCE, caller=UNIDENTIFIED).model_copy(update={"principal_ref": "bob"})
    await wire.send(event)
    output = (await ended_run(database, scope, event.event_id)).state_data
    assert output["skipped_reason"] == "unidentified_end_user"
    assert await entries_of(database, scope) == ()


async def test_a_callers_own_memory_is_never_the_shared_pool_by_omission(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    event = save(scope, SENTENCE, caller=actor("ann")).model_copy(update={"principal_ref": None})
    await wire.send(event)
    await ended_run(database, scope, event.event_id)
    assert [kept.principal_ref for kept in await entries_of(database, scope)] == ["ann"]


async def test_texts_in_any_script_are_four_entries(database: ArrangedDatabase, wire: Wire) -> None:
    scope = await known_scope(database)
    texts = ["本番の鍵は回す", "夜間は配備しない", "로그를 먼저 본다", "Сначала проверь журнал"]
    event = save(scope, *texts)
    await wire.send(event)
    assert (await ended_run(database, scope, event.event_id)).state_data["saved"] == 4
    kept = await entries_of(database, scope)
    assert {one.text for one in kept} == set(texts)
    assert len({one.fingerprint for one in kept}) == 4


async def test_texts_without_a_normal_form_are_skipped(database: ArrangedDatabase, wire: Wire) -> None:
    scope = await known_scope(database)
    event = save(scope, "...", "-;:", " ", " , - ")
    await wire.send(event)
    output = (await ended_run(database, scope, event.event_id)).state_data
    assert [result["reason"] for result in output["results"]] == ["empty_text"] * 4
    assert (output["saved"], output["skipped"]) == (0, 4)
    assert await entries_of(database, scope) == ()


async def test_composed_and_decomposed_accents_are_one_entry_stored_composed(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    decomposed = b"Re\xcc\x81serve\xcc\x81  cafe\xcc\x81".decode()
    event = save(scope, "Réservé café")
    body = event.model_dump_json().replace("Réservé café", decomposed, 1).encode()
    assert decomposed.encode() in body
    await wire.send_raw(SAVE_REQUESTED.name, body, key=event.key())
    await ended_run(database, scope, event.event_id)
    again = save(scope, "Réservé café")
    await wire.send(again)
    output = (await ended_run(database, scope, again.event_id)).state_data
    (kept,) = await entries_of(database, scope)
    assert (output["saved"], output["reinforced"]) == (0, 1)
    assert kept.text == "Réservé  café"


async def test_two_people_who_save_one_sentence_keep_one_entry_each(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    events = [save(scope, "prefers aisle seats", caller=end_user(ref)) for ref in ("A", "B")]
    events.append(save(scope, "prefers aisle seats"))
    await wire.send(*events)
    await outputs_of(database, scope, [event.event_id for event in events])
    kept = {one.principal_ref: one.reinforcement_count for one in await entries_of(database, scope)}
    assert kept == {"A": 0, "B": 0, None: 0}


@pytest.mark.parametrize(
    "refs",
    [
        pytest.param(["user1", "user10", "user1-x"], id="one the beginning of another"),
        pytest.param(["ann_lee", "ann-lee", "a%b", "a\\b"], id="wildcards"),
        pytest.param(["org:a:b", "org:a", "b:c", "c|d", "c&d", "c=d", "c.d"], id="joiners"),
        pytest.param([" bob ", "bob", "Bob"], id="blanks and case"),
    ],
)
async def test_references_that_look_alike_are_different_people(
    database: ArrangedDatabase, wire: Wire, refs: list[str]
) -> None:
    scope = await known_scope(database)
    events = [save(scope, SENTENCE, caller=end_user(ref)) for ref in refs]
    await wire.send(*events)
    outputs = await outputs_of(database, scope, [event.event_id for event in events])
    assert [output["saved"] for output in outputs] == [1] * len(refs)
    assert {one.principal_ref for one in await entries_of(database, scope)} == set(refs)


async def test_what_a_text_may_not_hold_is_cleaned_and_harms_no_other_entry(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    event = save(scope, "disk@full", "ship @ it", "sound")
    body = event.model_dump_json().replace("disk@full", r"disk\u0000full").replace("ship @", r"ship \ud83d")
    await wire.send_raw(SAVE_REQUESTED.name, body.encode(), key=event.key())
    await ended_run(database, scope, event.event_id)
    kept = {one.text for one in await entries_of(database, scope)}
    assert kept == {"diskfull", "ship \ufffd it", "sound"}


async def test_a_distilled_entry_says_what_made_it(database: ArrangedDatabase, wire: Wire) -> None:
    scope = await known_scope(database)
    distill = uuid4()
    provenance = {"provider": "trace-rules", "version": "1", "distill_workflow_id": str(distill)}
    event = save(scope, SENTENCE)
    changed = {**event.model_dump(mode="json"), "origin": "distill", "provenance": provenance}
    await wire.send(type(event).model_validate(changed))
    await ended_run(database, scope, event.event_id)
    (kept,) = await entries_of(database, scope)
    assert (kept.origin, kept.provenance) == ("distill", provenance)


async def test_a_save_that_the_store_refuses_is_set_aside_and_the_others_of_its_batch_complete(
    database: ArrangedDatabase, wire: Wire, shared_database_url: str
) -> None:
    scope = await known_scope(database)
    bomb, second, third = save(scope, "bomb"), save(scope, "second"), save(scope, "third")
    await execute(
        shared_database_url, "ALTER TABLE lorebus.memories ADD CONSTRAINT bombs CHECK (text <> 'bomb')"
    )
    try:
        await wire.send(bomb, second, third, partition=0)
        failed, *others = await outputs_of(database, scope, [bomb.event_id, second.event_id, third.event_id])
    finally:
        await execute(shared_database_url, "ALTER TABLE lorebus.memories DROP CONSTRAINT bombs")
    assert [output["saved"] for output in others] == [1, 1]
    failed_at = failed["failed_at"]
    assert failed == {
        "error": "PermanentError",
        "error_type": "PermanentError",
        "failed_at": failed_at,
        "failed_at_state": "run",
        "failed_layer": "consumer",
        "failed_step": "run",
        "failure_reason": "dead_lettered",
    }
    letters = await wire.dead_letters(SAVE_REQUESTED, SAVE_GROUP)
    (letter,) = [letter for letter in letters if letter.key == bomb.key()]
    await wire.send_raw(SAVE_REQUESTED.name, letter.value, key=letter.key)
    await wire.settled(SAVE_GROUP, SAVE_REQUESTED)
    run = await ended_run(database, scope, bomb.event_id)
    assert (run.state_name, run.state_data["saved"]) == ("completed", 1)
    assert {kept.text for kept in await entries_of(database, scope)} == {"bomb", "second", "third"}


async def test_what_is_consumed_is_accounted_for(
    database: ArrangedDatabase, save_processes: tuple[Service, ...], wire: Wire
) -> None:
    scope = await known_scope(database)
    await wire.send(*[save(scope, f"fact {number}") for number in range(20)])
    await wire.settled(SAVE_GROUP, SAVE_REQUESTED)
    assert sum([await assert_accounted_for(service.url) for service in save_processes]) >= 20
