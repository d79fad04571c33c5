"""The recall labeller as a process, on a real PostgreSQL and a real broker."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from lorebus_contracts.events import ChangeKind, Event
from lorebus_contracts.handed_out import HandedOutColumns, handed_out_columns
from lorebus_contracts.topics import LABELS_GROUP, RECALL_RECORDED, SESSION_ENDED, SESSION_RATED, Topic
from lorebus_store import recalls, sessions
from lorebus_store.recalls import Receipt
from tests.integration.consumers.changes import changes_of, told
from tests.integration.consumers.poisoned import assert_set_aside, send_among_poison
from tests.support.counted import assert_accounted_for
from tests.support.databases import ArrangedDatabase
from tests.support.events import Scope, actor, end_user, ended, new_scope, rated, recalled
from tests.support.labels import label_of
from tests.support.memory import access_counts, filled, know_session, known_scope
from tests.support.services import Service, services
from tests.support.waiting import eventually
from tests.support.wire import Wire

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOPICS = (SESSION_ENDED, SESSION_RATED, RECALL_RECORDED)
NOON = datetime(2026, 9, 1, 12, tzinfo=UTC)


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def processes(
    shared_database_url: str, bootstrap_servers: str, shared_topics: str
) -> AsyncIterator[tuple[Service, ...]]:
    async with services(
        "recall_labeller",
        "recall_labeller",
        database_url=shared_database_url,
        bootstrap_servers=bootstrap_servers,
        topic_prefix=shared_topics,
    ) as started:
        yield started


async def receipt_of(database: ArrangedDatabase, scope: Scope, recall_id: UUID) -> Receipt | None:
    async with database.read() as connection:
        return await recalls.receipt(connection, scope.organization_uuid, recall_id)


async def label(database: ArrangedDatabase, scope: Scope, recall_id: UUID) -> str | None:
    """The label of a recall once it is recorded."""
    receipt = await eventually(lambda: receipt_of(database, scope, recall_id), what="the recall is recorded")
    assert receipt is not None
    return label_of(receipt)


async def reasons_of(wire: Wire, topic: Topic, event: Event) -> list[bytes | None]:
    """Why the records with this event's key were dead-lettered."""
    letters = await wire.dead_letters(topic, LABELS_GROUP)
    return [dict(letter.headers)["lorebus-error-text"] for letter in letters if letter.key == event.key()]


async def test_a_recall_is_recorded_and_labelled_by_how_its_session_ended(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    memory_ids = await filled(database, scope, 4)
    recall = recalled(scope, memory_ids, caller=end_user("bob"))
    await wire.send(recall)
    await eventually(lambda: receipt_of(database, scope, recall.event_id), what="the recall is recorded")
    assert await label(database, scope, recall.event_id) is None
    await wire.send(ended(scope, outcome="failed", session_uuid=recall.session_uuid, caller=end_user("bob")))
    await wire.settled(LABELS_GROUP, *TOPICS)
    receipt = await receipt_of(database, scope, recall.event_id)
    assert receipt is not None
    assert label_of(receipt) == "failed"
    assert [(entry.memory_id, entry.rank) for entry in receipt.entries] == [
        (memory_id, rank) for rank, memory_id in enumerate(memory_ids, start=1)
    ]
    assert (receipt.caller_kind, receipt.principal_ref) == ("end_user", "bob")


async def test_a_recall_told_by_columns_is_recorded_as_one_told_entry_by_entry(
    database: ArrangedDatabase, wire: Wire
) -> None:
    """Of four places one is an entry's second, and one is of an entry that is gone."""
    scope = await known_scope(database)
    first, second = await filled(database, scope, 2)
    gone = uuid4()
    columns = handed_out_columns(
        [second, gone, second, first],
        [0.5, 0.25, 0.75, 1.0],
        [(0.9, 1.0, 0.8), (0.7, 0.6, 0.5), (0.4, 0.3, 0.2), (0.1, 0.0, 1.0)],
    )
    recall = recalled(scope, ()).model_copy(update={"handed_out": HandedOutColumns(**columns)})
    await wire.send(recall)
    receipt = await eventually(
        lambda: receipt_of(database, scope, recall.event_id), what="the recall is recorded"
    )
    assert receipt is not None
    assert [tuple(entry)[:6] for entry in receipt.entries] == [
        (second, 1, 0.9, 1.0, 0.5, 0.8),
        (gone, 2, 0.7, 0.6, 0.25, 0.5),
        (first, 4, 0.1, 0.0, 1.0, 1.0),
    ]
    assert [entry.text is None for entry in receipt.entries] == [False, True, False]
    counts = await access_counts(database, scope)
    assert (counts[first], counts[second]) == (1, 1)


async def test_a_rating_replaces_how_the_session_ended_and_is_never_replaced_by_it(
    database: ArrangedDatabase, wire: Wire
) -> None:
    """Of 12 candidates 4 are handed out; the session fails and is rated 0.9; its end is told again afterwards."""
    scope = await known_scope(database)
    memory_ids = await filled(database, scope, 12)
    recall = recalled(scope, memory_ids[:4])
    end = ended(scope, outcome="failed", session_uuid=recall.session_uuid)
    for events, expected in (
        ((recall, end), "failed"),
        ((rated(scope, 0.9, session_uuid=recall.session_uuid),), "success"),
        ((end, end.model_copy(update={"event_id": uuid4(), "occurred_at": datetime.now(UTC)})), "success"),
    ):
        await wire.send(*events)
        await wire.settled(LABELS_GROUP, *TOPICS)
        assert await label(database, scope, recall.event_id) == expected
    counts = await access_counts(database, scope)
    assert {memory_id: counts[memory_id] for memory_id in memory_ids} == {
        **dict.fromkeys(memory_ids[:4], 1),
        **dict.fromkeys(memory_ids[4:], 0),
    }


@pytest.mark.parametrize(
    ("outcome", "score", "expected"),
    [
        ("success", None, "success"),
        ("failed", None, "failed"),
        ("cancelled", None, None),
        ("SUCCESS", None, None),
        ("cancelled", 0.5, "success"),
        ("success", 0.499, "failed"),
    ],
)
async def test_only_success_failed_and_ratings_are_labels(
    database: ArrangedDatabase, wire: Wire, outcome: str, score: float | None, expected: str | None
) -> None:
    scope = await known_scope(database)
    recall = recalled(scope, [])
    await wire.send(recall, ended(scope, outcome=outcome, session_uuid=recall.session_uuid))
    if score is not None:
        await wire.send(rated(scope, score, session_uuid=recall.session_uuid))
    await wire.settled(LABELS_GROUP, *TOPICS)
    assert await label(database, scope, recall.event_id) == expected


async def test_of_two_ratings_the_later_one_counts_in_whatever_order_they_come(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    recall = recalled(scope, [])
    later = rated(scope, 0.1, session_uuid=recall.session_uuid, occurred_at=NOON + timedelta(seconds=1))
    earlier = rated(scope, 0.9, session_uuid=recall.session_uuid, occurred_at=NOON)
    await wire.send(recall, later, partition=0)
    await wire.send(earlier, partition=0)
    await wire.settled(LABELS_GROUP, *TOPICS)
    assert await label(database, scope, recall.event_id) == "failed"


async def test_forty_loads_of_the_same_ten_entries_raise_each_count_by_exactly_forty(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    memory_ids = await filled(database, scope, 10)
    events = [recalled(scope, memory_ids if number % 2 else memory_ids[::-1]) for number in range(40)]
    for number, event in enumerate(events):
        await wire.send(event, partition=number % 2)
    await wire.settled(LABELS_GROUP, *TOPICS)
    assert await access_counts(database, scope) == dict.fromkeys(memory_ids, 40)
    await wire.send(*events)
    await wire.settled(LABELS_GROUP, *TOPICS)
    assert await access_counts(database, scope) == dict.fromkeys(memory_ids, 40)


async def test_the_same_event_twice_in_one_batch_counts_once(database: ArrangedDatabase, wire: Wire) -> None:
    scope = await known_scope(database)
    memory_ids = await filled(database, scope, 1)
    recall = recalled(scope, memory_ids)
    await wire.send(recall, recall, recall, partition=0)
    await wire.settled(LABELS_GROUP, *TOPICS)
    assert await access_counts(database, scope) == {memory_ids[0]: 1}


async def test_an_entry_that_is_gone_costs_a_recall_nothing_else(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    memory_ids = await filled(database, scope, 1)
    gone = uuid4()
    recall = recalled(scope, [gone, *memory_ids])
    await wire.send(recall)
    await wire.settled(LABELS_GROUP, *TOPICS)
    receipt = await receipt_of(database, scope, recall.event_id)
    assert receipt is not None
    assert [entry.text is None for entry in receipt.entries] == [True, False]
    assert await access_counts(database, scope) == {memory_ids[0]: 1}


async def test_the_bus_is_told_of_a_session_whose_recalls_have_a_label_now(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    session_uuid = uuid4()
    await wire.send(ended(scope, outcome="cancelled", session_uuid=uuid4()))
    await wire.send(ended(scope, outcome="failed", session_uuid=session_uuid))
    assert await told(wire, scope, {ChangeKind.LABELLED: 1}) == {ChangeKind.LABELLED: {session_uuid}}
    await wire.send(rated(scope, 0.9, session_uuid=session_uuid))
    await told(wire, scope, {ChangeKind.LABELLED: 2})
    await wire.send(ended(scope, outcome="success", session_uuid=session_uuid))
    await wire.settled(LABELS_GROUP, *TOPICS)
    assert sum(change.count for change in await changes_of(wire, scope)) == 2


async def test_events_of_an_unknown_organization_are_set_aside_and_nothing_is_written_for_them(
    database: ArrangedDatabase, wire: Wire
) -> None:
    nobody = new_scope()
    recall = recalled(nobody, [uuid4()])
    end = ended(nobody, session_uuid=recall.session_uuid)
    rating = rated(nobody, 0.9, session_uuid=recall.session_uuid)
    await wire.send(recall, end, rating)
    await wire.settled(LABELS_GROUP, *TOPICS)
    for topic, event in ((RECALL_RECORDED, recall), (SESSION_ENDED, end), (SESSION_RATED, rating)):
        assert await reasons_of(wire, topic, event) == [b"unknown_organization"]
    assert await receipt_of(database, nobody, recall.event_id) is None
    assert await session_of(database, nobody, recall.session_uuid) is None


async def test_events_of_an_unknown_agent_config_have_no_effect(
    database: ArrangedDatabase, wire: Wire
) -> None:
    known = await known_scope(database)
    strange = Scope(known.organization_uuid, uuid4())
    recall = recalled(strange, [])
    await wire.send(
        recall,
        ended(strange, session_uuid=recall.session_uuid),
        rated(strange, 0.9, session_uuid=recall.session_uuid),
    )
    await wire.settled(LABELS_GROUP, *TOPICS)
    assert await receipt_of(database, strange, recall.event_id) is None
    assert await session_of(database, strange, recall.session_uuid) is None


@pytest.mark.parametrize("registered", [True, False])
async def test_events_told_under_another_agent_config_are_rejected_and_label_nothing(
    database: ArrangedDatabase,
    wire: Wire,
    registered: bool,  # noqa: FBT001 - A parameter of the test.
) -> None:
    mine = await known_scope(database)
    other = await known_scope(database, scope=Scope(mine.organization_uuid, uuid4()))
    memory_ids = await filled(database, other, 1)
    recall = recalled(mine, [], caller=actor("ann"))
    session_uuid = recall.session_uuid
    await know_session(database, recall, registered=registered)
    end = ended(other, session_uuid=session_uuid, outcome="failed", caller=actor("ann"))
    rating = rated(other, 0.1, session_uuid=session_uuid)
    forged = recalled(other, memory_ids, session_uuid=session_uuid, caller=actor("ann"))
    await wire.send(recall, end, rating, forged)
    await wire.settled(LABELS_GROUP, *TOPICS)
    for topic, event in ((SESSION_ENDED, end), (SESSION_RATED, rating), (RECALL_RECORDED, forged)):
        assert await reasons_of(wire, topic, event) == [b"session_mismatch"]
    assert await label(database, mine, recall.event_id) is None
    assert await receipt_of(database, other, forged.event_id) is None
    assert await access_counts(database, other) == {memory_ids[0]: 0}
    await wire.send(ended(mine, session_uuid=session_uuid, outcome="success", caller=actor("ann")))
    await wire.settled(LABELS_GROUP, *TOPICS)
    assert await label(database, mine, recall.event_id) == "success"


async def test_events_told_for_another_caller_than_the_registered_one_are_rejected(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    recall = recalled(scope, [], caller=end_user("bob"))
    await know_session(database, recall, registered=True)
    end = ended(scope, session_uuid=recall.session_uuid, outcome="failed", caller=end_user("alice"))
    await wire.send(recall, end)
    await wire.settled(LABELS_GROUP, *TOPICS)
    assert await reasons_of(wire, SESSION_ENDED, end) == [b"session_mismatch"]
    assert await label(database, scope, recall.event_id) is None


async def test_a_rejected_event_may_be_replayed_once_its_session_is_put_right(
    database: ArrangedDatabase, wire: Wire
) -> None:
    scope = await known_scope(database)
    other = await known_scope(database, scope=Scope(scope.organization_uuid, uuid4()))
    recall = recalled(scope, [])
    await know_session(database, recalled(other, [], session_uuid=recall.session_uuid), registered=False)
    await wire.send(recall)
    await wire.settled(LABELS_GROUP, *TOPICS)
    assert await receipt_of(database, scope, recall.event_id) is None
    await know_session(database, recall, registered=True)
    await wire.send(recall)
    assert await label(database, scope, recall.event_id) is None


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
async def test_poison_among_sound_events_is_set_aside_and_the_sound_ones_count(
    database: ArrangedDatabase, wire: Wire, shared_topics: str, topic: Topic
) -> None:
    scope = await known_scope(database)
    memory_ids = await filled(database, scope, 1)
    recall = recalled(scope, memory_ids)
    sound: Event = {
        SESSION_ENDED: ended(scope, session_uuid=recall.session_uuid, outcome="failed"),
        SESSION_RATED: rated(scope, 0.1, session_uuid=recall.session_uuid),
        RECALL_RECORDED: recall,
    }[topic]
    before = await wire.dead_letters(topic, LABELS_GROUP)
    await send_among_poison(wire, sound, group=LABELS_GROUP)
    await wire.send(recall, ended(scope, session_uuid=recall.session_uuid, outcome="failed"))
    await wire.settled(LABELS_GROUP, *TOPICS)
    letters = await wire.dead_letters(topic, LABELS_GROUP, count=len(before) + 10)
    new = [letter for letter in letters if letter not in before]
    assert_set_aside(new, sound, origin=shared_topics + topic.name, group=LABELS_GROUP)
    assert await label(database, scope, recall.event_id) == "failed"
    assert await access_counts(database, scope) == {memory_ids[0]: 1}


async def test_what_is_consumed_is_accounted_for(
    database: ArrangedDatabase, processes: tuple[Service, ...], wire: Wire
) -> None:
    scope = await known_scope(database)
    await wire.send(*[recalled(scope, []) for _ in range(20)])
    await wire.settled(LABELS_GROUP, *TOPICS)
    assert sum([await assert_accounted_for(service.url) for service in processes]) >= 20


async def session_of(database: ArrangedDatabase, scope: Scope, session_uuid: UUID) -> sessions.Session | None:
    async with database.read() as connection:
        return await sessions.get(connection, scope.organization_uuid, session_uuid)
