"""What leaves through the outbox: the bus's own bytes, and nothing too large for a topic."""

from uuid import UUID

from lorebus_contracts.events import ChangeKind
from lorebus_contracts.topics import MAX_RECORD_BYTES
from lorebus_kit.emitting import memory_changed, outbox_row
from tests.support.events import Scope, prune

PAIR = (UUID(int=1), UUID(int=2))


def test_a_row_holds_the_topic_the_key_and_the_bytes_that_the_bus_would_get() -> None:
    event = prune(Scope(*PAIR), 3)
    row = outbox_row(event)
    assert (row.topic, row.key) == ("memory.prune-requested", b"00000000-0000-0000-0000-000000000002")
    assert row.payload == event.model_dump_json().encode()
    assert (row.organization_uuid, row.event_id) == (PAIR[0], event.event_id)


def test_bytes_that_were_made_already_go_out_as_they_are() -> None:
    assert outbox_row(prune(Scope(*PAIR)), b"made before").payload == b"made before"


def test_a_change_counts_how_many_times_it_happened_and_names_each_entry_once() -> None:
    (change,) = memory_changed(PAIR, ChangeKind.REINFORCED, {UUID(int=7): 49, UUID(int=8): 1})
    assert change.ids == (UUID(int=7), UUID(int=8))
    assert change.count == 50
    assert (change.organization_uuid, change.agent_config_uuid) == PAIR


def test_nothing_that_changed_is_no_event() -> None:
    assert list(memory_changed(PAIR, ChangeKind.PRUNED, {})) == []


def test_the_changes_of_the_largest_batch_are_told_in_events_that_fit_into_a_topic() -> None:
    times = {UUID(int=number): 2 for number in range(50_000)}
    changes = list(memory_changed(PAIR, ChangeKind.REINFORCED, times))
    assert [len(change.ids) for change in changes] == [1_000] * 50
    assert sum(change.count for change in changes) == 100_000
    assert max(len(change.model_dump_json()) for change in changes) < MAX_RECORD_BYTES / 50
