"""The acceptor on a real store and a bus that does as it is told."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4, uuid5

import pytest

from lorebus_contracts.events import (
    CallerBody,
    EntryBody,
    Event,
    Origin,
    PruneRequested,
    SaveRequested,
    SessionEnded,
    SessionRated,
)
from lorebus_domain.visibility import NoCaller
from lorebus_kit.acceptance import AcceptMode, Acceptor
from lorebus_kit.bus import Record
from lorebus_store.acting import Tenants
from lorebus_store.database import Database
from lorebus_store.errors import TransientError

ORGANIZATION = UUID("00000000-0000-4000-8000-00000000000a")
NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


class ObedientBus:
    """Confirms what it is not told to refuse, and remembers what it was asked."""

    def __init__(self) -> None:
        self.connected = True
        self.refused_keys: set[bytes | None] = set()
        self.is_away = False
        self.records: list[Record] = []
        self.asked = 0

    async def publish_all(
        self, records: Sequence[Record], *, timeout_seconds: float
    ) -> Sequence[TransientError | None]:
        assert timeout_seconds == 0.5
        self.asked += 1
        refused = [self.is_away or record.key in self.refused_keys for record in records]
        self.records += [record for record, no in zip(records, refused, strict=True) if not no]
        return [TransientError("refused") if no else None for no in refused]


def a_save() -> SaveRequested:
    return SaveRequested(
        event_id=uuid4(),
        occurred_at=NOW,
        organization_uuid=ORGANIZATION,
        agent_config_uuid=uuid4(),
        session_uuid=uuid4(),
        caller=CallerBody.of(NoCaller()),
        principal_ref=None,
        entries=(EntryBody(text="a secret text"),),
        origin=Origin.RUNNER,
    )


def a_prune() -> PruneRequested:
    return PruneRequested(
        event_id=uuid4(),
        occurred_at=NOW,
        organization_uuid=ORGANIZATION,
        agent_config_uuid=uuid4(),
        max_entries=3,
    )


def an_end() -> SessionEnded:
    return SessionEnded(
        event_id=uuid4(),
        occurred_at=NOW,
        organization_uuid=ORGANIZATION,
        agent_config_uuid=uuid4(),
        session_uuid=uuid4(),
        caller=CallerBody.of(NoCaller()),
        outcome="success",
        step_count=2,
    )


def a_rating() -> SessionRated:
    return SessionRated(
        event_id=uuid4(),
        occurred_at=NOW,
        organization_uuid=ORGANIZATION,
        agent_config_uuid=uuid4(),
        session_uuid=uuid4(),
        quality_score=1.0,
    )


class Setting:
    """An acceptor with what stands around it."""

    def __init__(self, database: Database, mode: AcceptMode = AcceptMode.BUS) -> None:
        self.database = database
        self.bus = ObedientBus()
        self.woken = 0
        self.acceptor = Acceptor(database, self.bus, mode=mode, wake_relay=self._wake, publish_seconds=0.5)

    def _wake(self) -> None:
        self.woken += 1

    async def rows(self, table: str) -> list[dict[str, Any]]:
        async with self.database.read(Tenants.of(ORGANIZATION)) as connection:
            found = await connection.exec_driver_sql(f"SELECT * FROM lorebus.{table} ORDER BY 1")  # noqa: S608
            return [dict(row) for row in found.mappings()]


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    made = Database(database_url, pool_size=2)
    yield made
    await made.dispose()


async def test_on_the_bus_nothing_goes_to_the_store(database: Database) -> None:
    setting = Setting(database)
    event = a_save()

    await setting.acceptor.accept(event)

    (record,) = setting.bus.records
    assert (record.topic, record.key) == ("memory.save-requested", event.key())
    assert record.value == event.model_dump_json().encode()
    assert await setting.rows("outbox") == await setting.rows("workflow_runs") == []
    assert setting.woken == 0


async def test_in_store_mode_the_bus_is_not_asked(database: Database) -> None:
    setting = Setting(database, AcceptMode.STORE)
    event = a_save()

    await setting.acceptor.accept(event)

    assert setting.bus.asked == 0
    (row,) = await setting.rows("outbox")
    assert (row["event_id"], row["payload"]) == (event.event_id, event.model_dump_json().encode())
    assert setting.woken == 1


async def test_only_what_the_bus_does_not_confirm_goes_to_the_store(database: Database) -> None:
    setting = Setting(database)
    first, second, third = a_save(), a_save(), a_rating()
    setting.bus.refused_keys = {second.key()}

    await setting.acceptor.accept_all([first, second, third])

    assert [record.key for record in setting.bus.records] == [first.key(), third.key()]
    assert [row["event_id"] for row in await setting.rows("outbox")] == [second.event_id]
    assert [row["id"] for row in await setting.rows("workflow_runs")] == [second.event_id]


async def test_a_bus_that_was_away_is_left_alone_for_a_while(database: Database) -> None:
    setting = Setting(database)
    setting.bus.is_away = True

    await setting.acceptor.accept(a_save())
    setting.bus.is_away = False
    await setting.acceptor.accept(a_save())

    assert setting.bus.asked == 1
    assert not setting.acceptor.bus_is_there
    assert len(await setting.rows("outbox")) == 2


async def test_the_same_event_twice_has_one_run(database: Database) -> None:
    setting = Setting(database, AcceptMode.STORE)
    event = a_save()

    await setting.acceptor.accept(event)
    await setting.acceptor.accept(event)

    assert len(await setting.rows("workflow_runs")) == 1


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (a_save(), "agents.memory-save"),
        (a_prune(), "agents.memory-prune"),
        (an_end(), "agents.memory-distill"),
    ],
)
async def test_an_event_starts_a_run_of_its_type_that_echoes_ids_and_no_text(
    database: Database, event: Event, kind: str
) -> None:
    setting = Setting(database, AcceptMode.STORE)

    await setting.acceptor.accept(event)

    (run,) = await setting.rows("workflow_runs")
    by_session = isinstance(event, SessionEnded) and uuid5(event.session_uuid, "distill-run:v1")
    assert run["id"] == (by_session or event.event_id)
    assert (run["type"], run["state_name"]) == (kind, "initiated")
    assert run["pending_input"] == event.model_dump_json().encode()
    assert "secret" not in str(run["state_data"])


async def test_a_rating_starts_no_run(database: Database) -> None:
    setting = Setting(database, AcceptMode.STORE)

    await setting.acceptor.accept(a_rating())

    assert await setting.rows("workflow_runs") == []
    assert len(await setting.rows("outbox")) == 1


async def test_a_run_is_shown_only_where_the_bus_took_its_event(database: Database) -> None:
    event = an_end()
    on_bus, through_store = Setting(database), Setting(database, AcceptMode.STORE)

    await through_store.acceptor.note_run(event)
    assert await on_bus.rows("workflow_runs") == []
    await on_bus.acceptor.note_run(event)

    assert len(await on_bus.rows("workflow_runs")) == 1


@pytest.fixture
async def nowhere() -> AsyncIterator[Database]:
    made = Database("postgresql://nobody@127.0.0.1:9/none", pool_size=1)
    yield made
    await made.dispose()


async def test_a_bus_that_is_left_alone_is_asked_before_anybody_is_told_no(nowhere: Database) -> None:
    setting = Setting(nowhere)
    setting.bus.is_away = True
    with pytest.raises(TransientError):
        await setting.acceptor.accept(a_save())
    setting.bus.is_away = False
    event = a_save()

    await setting.acceptor.accept(event)

    assert [record.value for record in setting.bus.records] == [event.model_dump_json().encode()]


async def test_with_both_away_the_caller_is_told(nowhere: Database) -> None:
    setting = Setting(nowhere)
    setting.bus.is_away = True

    with pytest.raises(TransientError):
        await setting.acceptor.accept(a_save())

    assert setting.woken == 0
