"""What a prune would do (SPEC.md section 7), and what became of a recall (section 5, "Labels" and "Receipts")."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from lorebus_store import recalls, sessions
from lorebus_store.recalls import EntryColumns, HandedOut, RecordedRecall
from tests.support.gateways import Asking

APP = "/api/app/agents"
NOW = datetime.now(UTC)


async def preview(gateway: Asking, config: UUID, **body: object) -> dict[str, object]:
    wish = {"agent_config_uuid": str(config), "dry_run": True, **body}
    answer = await gateway.ask("POST", f"{APP}/memory/prune", json=wish)
    assert answer.status_code == 200, answer.text
    told: dict[str, object] = answer.json()
    return told


async def test_a_dry_run_tells_what_would_go_lowest_and_oldest_first_and_touches_nothing(
    gateway: Asking,
) -> None:
    config = await gateway.config()
    for text, importance, age_days in (("b", 0.2, 1), ("a", 0.2, 2), ("keep", 0.9, 9), ("c", 0.3, 9)):
        await gateway.remember(
            config, text, principal="bob", importance=importance, at=NOW - timedelta(days=age_days)
        )

    told = await preview(gateway, config, max_entries=1)

    assert (told["max_entries"], told["would_delete"], told["would_remain"]) == (1, 3, 1)
    assert isinstance(told["first"], list)
    assert [entry["text"] for entry in told["first"]] == ["a", "b", "c"]
    assert told["first"][0]["principal_ref"] == "bob"
    assert len(await gateway.rows("SELECT id FROM lorebus.memories")) == 4
    assert not await gateway.rows("SELECT id FROM lorebus.workflow_runs")
    assert not await gateway.rows("SELECT id FROM lorebus.outbox")


async def test_a_dry_run_shows_a_hundred_of_what_would_go_and_counts_all(gateway: Asking) -> None:
    config = await gateway.config()
    await gateway.remember(config, *(f"fact {i}" for i in range(130)))

    told = await preview(gateway, config, max_entries=0)

    assert (told["would_delete"], told["would_remain"]) == (130, 0)
    assert isinstance(told["first"], list)
    assert len(told["first"]) == 100


async def test_a_dry_run_goes_by_the_configs_own_cap(gateway: Asking) -> None:
    config = await gateway.config(memory_max_entries=2)
    await gateway.remember(config, "one")

    told = await preview(gateway, config)

    assert (told["max_entries"], told["would_delete"], told["would_remain"], told["first"]) == (2, 0, 1, [])


@pytest.mark.parametrize(
    ("body", "status"),
    [({"max_entries": -1}, 422), ({"dry_run": "yes"}, 422), ({"agent_config_uuid": str(uuid4())}, 404)],
)
async def test_a_dry_run_is_refused_as_a_prune_is(
    gateway: Asking, body: dict[str, object], status: int
) -> None:
    config = await gateway.config()
    wish = {"agent_config_uuid": str(config), "dry_run": True, **body}

    assert (await gateway.ask("POST", f"{APP}/memory/prune", json=wish)).status_code == status


async def a_recall(gateway: Asking) -> RecordedRecall:
    config = await gateway.config()
    (entry,) = await gateway.remember(config, "likes tea")
    session = await gateway.session(config)
    recall = RecordedRecall(
        organization_uuid=gateway.organization_uuid,
        recall_id=uuid4(),
        pack_id=uuid4(),
        session_uuid=session.uuid,
        agent_config_uuid=config,
        caller_kind="none",
        principal_ref=None,
        requested_strategy="pack",
        strategy="pack",
        cue="tea",
        top_k=2,
        budget_used_chars=52,
        occurred_at=NOW,
        entries=EntryColumns.of([HandedOut(entry, 1, 0.5, score=0.9, relevance=1.0, recency=1.0)]),
    )
    async with gateway.database.begin() as connection:
        await recalls.record(connection, [recall])
    return recall


async def test_a_receipt_tells_how_its_label_came_about(gateway: Asking) -> None:
    recall = await a_recall(gateway)
    mine = (gateway.organization_uuid, recall.session_uuid, recall.agent_config_uuid)

    async def told(which: UUID | None = recall.recall_id) -> tuple[object, ...]:
        receipt = (await gateway.ask("GET", f"{APP}/recalls/{which}")).json()
        return tuple(receipt[name] for name in ("label", "label_source", "rating", "unlabelled_reason"))

    async def ended(outcome: str, *, seconds: int) -> None:
        happened = sessions.SessionOutcome(*mine, outcome, NOW + timedelta(seconds=seconds), uuid4())
        async with gateway.database.begin() as connection:
            await sessions.apply_outcomes(connection, [happened])

    assert await told() == (None, None, None, "not_ended")
    await ended("aborted", seconds=1)
    assert await told() == (None, None, None, "ended_otherwise")
    await ended("failed", seconds=2)
    assert await told() == ("failed", "outcome", None, None)
    async with gateway.database.begin() as connection:
        await sessions.apply_ratings(connection, [sessions.SessionRating(*mine, 0.9, NOW, uuid4())])
    assert await told() == ("success", "rating", 0.9, None)
    await ended("failed", seconds=3)
    assert await told(recall.pack_id) == ("success", "rating", 0.9, None)
