"""The relay beside slow transactions, beside another relay, and killed in the middle of its work."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Final

import pytest
from aiokafka import ConsumerRecord

from lorebus_contracts.topics import MEMORY_CHANGED
from lorebus_kit.backoff import pause
from lorebus_store import outbox
from lorebus_store.outbox import OutboxRow
from tests.faults.record import Fault, rounds
from tests.faults.stage import Stage, grows
from tests.support.databases import ArrangedDatabase
from tests.support.load import new_uuid, under
from tests.support.waiting import eventually
from tests.support.wire import Wire

pytestmark = pytest.mark.timeout(120 + 40 * rounds())

RELAY: Final = "prune"
"""Every consumer runs a relay; this one has nothing else to do here."""
KEYS: Final = 6
SLOW_TRANSACTIONS: Final = 20


class Numbered:
    """Outbox rows of one key, numbered from 0 in the order of their transactions."""

    def __init__(self, database: ArrangedDatabase, rng: random.Random, key: str) -> None:
        self.key = key.encode()
        self.written = 0
        self._database = database
        self._rng = rng

    async def run(self, stop: asyncio.Event) -> None:
        """Write a few rows a transaction until `stop` is set."""
        while not await pause(0.02, stop):
            async with self._database.begin() as connection:
                rows = [self._row(self.written + n) for n in range(self._rng.randint(1, 5))]
                await outbox.add(connection, rows)
            self.written += len(rows)

    def _row(self, number: int) -> OutboxRow:
        return outbox_row(self._rng, self.key, str(number))


def outbox_row(rng: random.Random, key: bytes, content: str) -> OutboxRow:
    return OutboxRow(
        organization_uuid=new_uuid(rng),
        topic=MEMORY_CHANGED.name,
        key=key,
        payload=content.encode(),
        event_id=new_uuid(rng),
    )


async def test_a_row_that_commits_after_later_ones_is_published_too(stage: Stage, fault: Fault) -> None:
    database = ArrangedDatabase(stage.database_url, pool_size=SLOW_TRANSACTIONS + KEYS)
    quick = [Numbered(database, stage.rng, f"quick {n}") for n in range(KEYS)]
    await stage.start(RELAY)
    try:
        async with under(*quick):
            for number in range(fault.rounds):
                await slow_transactions(database, stage, quick, name=f"slow {number}")
                fault.injected += SLOW_TRANSACTIONS
        await eventually(lambda: is_empty(stage), what="everything is published")
    finally:
        await database.dispose()
    async with Wire(stage.bootstrap_servers, stage.topic_prefix) as wire:
        published = first_of_each(await wire.read(MEMORY_CHANGED.name))

    for writer in quick:
        assert published[writer.key] == [str(n) for n in range(writer.written)]
    slow = sorted(content for key, found in published.items() if key.startswith(b"slow") for content in found)
    assert slow == sorted(f"slow {r}.{n}" for r in range(fault.rounds) for n in range(SLOW_TRANSACTIONS))


async def slow_transactions(
    database: ArrangedDatabase, stage: Stage, quick: Sequence[Numbered], *, name: str
) -> None:
    """Transactions that have written and wait while others commit with later ids; then they commit in any order."""
    written, may_commit = asyncio.Event(), [asyncio.Event() for _ in range(SLOW_TRANSACTIONS)]
    open_now = 0

    async def one(number: int) -> None:
        nonlocal open_now
        async with database.begin() as connection:
            await outbox.add(
                connection, [outbox_row(stage.rng, f"{name}.{number}".encode(), f"{name}.{number}")]
            )
            open_now += 1
            if open_now == SLOW_TRANSACTIONS:
                written.set()
            await may_commit[number].wait()

    tasks = [asyncio.create_task(one(number)) for number in range(SLOW_TRANSACTIONS)]
    await written.wait()
    for gate in stage.rng.sample(may_commit, k=len(may_commit)):
        await grows(lambda: sum(writer.written for writer in quick), by=1, what="rows with later ids")
        gate.set()
    await asyncio.gather(*tasks)


async def test_two_relays_of_which_one_is_killed_keep_the_order_of_each_key(
    stage: Stage, fault: Fault
) -> None:
    database = ArrangedDatabase(stage.database_url, pool_size=KEYS)
    writers = [Numbered(database, stage.rng, f"key {n}") for n in range(KEYS)]
    relays = list(await stage.start(RELAY, RELAY))
    try:
        async with under(*writers):
            for number in range(max(1, fault.rounds // 2)):
                await grows(lambda: sum(writer.written for writer in writers), by=100, what="written rows")
                victim = relays[number % 2]
                victim.kill()
                victim.start()
                await victim.ready()
                fault.injected += 1
        await eventually(lambda: is_empty(stage), what="everything is published", seconds=60)
    finally:
        await database.dispose()
    async with Wire(stage.bootstrap_servers, stage.topic_prefix) as wire:
        published = first_of_each(await wire.read(MEMORY_CHANGED.name))

    assert published == {writer.key: [str(n) for n in range(writer.written)] for writer in writers}


async def is_empty(stage: Stage) -> bool:
    """Whether the outbox is."""
    return bool(await stage.fetch("SELECT count(*) = 0 FROM lorebus.outbox"))


def first_of_each(records: Sequence[ConsumerRecord]) -> Mapping[bytes, list[str]]:
    """The contents of each key in the order in which each was read first; a relay's successor may publish again."""
    found: dict[bytes, dict[str, None]] = {}
    for record in records:
        found.setdefault(record.key, {})[record.value.decode()] = None
    return {key: list(contents) for key, contents in found.items()}
