"""A label does not depend on the order in which its events come, how often, or how they fall into batches."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import permutations
from uuid import uuid4

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lorebus_contracts.events import Event, RecallRecorded
from lorebus_recall_labeller.handlers import on_session_events
from lorebus_store import recalls
from tests.support.databases import ArrangedDatabase
from tests.support.events import Scope, ended, rated, recalled
from tests.support.labels import label_of
from tests.support.memory import access_counts, filled, known_scope

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOON = datetime(2026, 9, 1, 12, tzinfo=UTC)
OUTCOMES = ("success", "failed", "cancelled")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scope(database: ArrangedDatabase) -> Scope:
    return await known_scope(database)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def handed_out(database: ArrangedDatabase, scope: Scope) -> AsyncIterator[RecallRecorded]:
    """A recall of two entries, to be told again for other sessions."""
    yield recalled(scope, await filled(database, scope, 2))


async def tell(database: ArrangedDatabase, *batches: list[Event]) -> None:
    for batch in batches:
        async with database.begin() as connection:
            await on_session_events(connection, batch)


async def label(database: ArrangedDatabase, recall: RecallRecorded) -> str | None:
    async with database.read() as connection:
        receipt = await recalls.receipt(connection, recall.organization_uuid, recall.event_id)
    assert receipt is not None
    assert len(receipt.entries) == 2
    return label_of(receipt)


def again(recall: RecallRecorded) -> RecallRecorded:
    """The same recall for a session of its own."""
    return recall.model_copy(update={"event_id": uuid4(), "session_uuid": uuid4()})


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
@pytest.mark.parametrize("one_batch", [True, False], ids=["one batch", "one by one"])
async def test_recall_end_and_rating_give_one_label_in_each_order(
    database: ArrangedDatabase,
    scope: Scope,
    handed_out: RecallRecorded,
    order: tuple[int, ...],
    one_batch: bool,  # noqa: FBT001 - A parameter of the test.
) -> None:
    recall = again(handed_out)
    events: list[Event] = [
        recall,
        ended(scope, outcome="failed", session_uuid=recall.session_uuid),
        rated(scope, 0.9, session_uuid=recall.session_uuid),
    ]
    in_order = [events[place] for place in order]
    await tell(database, *([in_order] if one_batch else [[event] for event in in_order]))
    assert await label(database, recall) == "success"


ends = st.lists(
    st.tuples(st.sampled_from(OUTCOMES), st.integers(0, 3)), max_size=3, unique_by=lambda end: end[1]
)
ratings = st.lists(
    st.tuples(st.sampled_from([0.0, 0.49, 0.5, 1.0]), st.integers(0, 3)),
    max_size=3,
    unique_by=lambda one: one[1],
)


def expected(ended_at: list[tuple[str, int]], rated_at: list[tuple[float, int]]) -> str | None:
    """The last rating decides, without one the last end; an end of any other kind labels nothing."""
    if rated_at:
        score, _ = max(rated_at, key=lambda one: one[1])
        return "success" if score >= 0.5 else "failed"
    outcome, _ = max(ended_at, key=lambda one: one[1], default=("none", 0))
    return outcome if outcome in {"success", "failed"} else None


@given(data=st.data(), ended_at=ends, rated_at=ratings)
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_any_order_with_any_repeats_in_any_batches_gives_one_label(
    *,
    database: ArrangedDatabase,
    scope: Scope,
    handed_out: RecallRecorded,
    data: st.DataObject,
    ended_at: list[tuple[str, int]],
    rated_at: list[tuple[float, int]],
) -> None:
    recall = again(handed_out)
    session_uuid = recall.session_uuid
    events: list[Event] = [recall]
    for outcome, second in ended_at:
        at = NOON + timedelta(seconds=second)
        events.append(ended(scope, outcome=outcome, session_uuid=session_uuid, occurred_at=at))
    for score, second in rated_at:
        at = NOON + timedelta(seconds=second)
        events.append(rated(scope, score, session_uuid=session_uuid, occurred_at=at))
    repeats = data.draw(st.lists(st.sampled_from(events), max_size=4))
    in_order = data.draw(st.permutations(events + repeats))
    cut = data.draw(st.integers(0, len(in_order)))
    before = await access_counts(database, scope)
    await tell(database, in_order[:cut], in_order[cut:])
    assert await label(database, recall) == expected(ended_at, rated_at)
    assert await access_counts(database, scope) == {entry: count + 1 for entry, count in before.items()}
