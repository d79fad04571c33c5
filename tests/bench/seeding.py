"""Fills one agent config of Lorebus and of the bare trial with the same memories, without saving them one by one.

The rule that must not break: a row is what the save path would have written; the product's own rules make it. Half of
a config's memories are in the shared pool, the other half is spread evenly over its principals, so that an actor sees
a little more than half of them.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final, NamedTuple
from uuid import UUID

import asyncpg
from uuid6 import uuid7

from lorebus_contracts.events import Origin
from lorebus_domain.fingerprint import FINGERPRINT_VERSION
from lorebus_domain.saving import Entry, KeptEntry, plan_save
from lorebus_domain.terms import TERMS_VERSION
from lorebus_domain.terms import packed as hashed
from tests.bench import database as tables
from tests.bench.database import MemoryRow
from tests.bench.trial_store import packed
from tests.bench.workload import PRINCIPALS, new_memories

CHUNK: Final = 10_000
AGE: Final = timedelta(days=90)
"""The memories' dates are spread evenly over so long."""
_TRIAL_COLUMNS: Final = [
    "id",
    "config",
    "principal",
    "fingerprint",
    "text",
    "importance",
    "created_at",
    "terms",
]


class Seed(NamedTuple):
    """One memory to be put in."""

    id: UUID
    principal: str | None
    kept: KeptEntry
    created_at: datetime


def principal_name(number: int) -> str:
    """What a principal is called."""
    return f"user-{number}"


def seeds(count: int, *, seed: int) -> Iterator[Seed]:
    """So many memories for one config, oldest first."""
    begin, step = datetime.now(UTC) - AGE, AGE / count
    for number, memory in enumerate(new_memories(count, seed=seed)):
        (kept,) = plan_save([Entry(memory.text, memory.importance)]).kept
        principal = None if number % 2 else principal_name(number // 2 % PRINCIPALS)
        yield Seed(uuid7(), principal, kept, begin + number * step)


async def fill(
    lorebus: asyncpg.Connection,
    trial: asyncpg.Connection,
    *,
    organization: UUID,
    config: UUID,
    entries: Iterator[Seed],
) -> None:
    """Put them into both, chunk after chunk."""
    while chunk := list(islice(entries, CHUNK)):
        await tables.add_memories(lorebus, config, [_row(organization, config, one) for one in chunk])
        await trial.copy_records_to_table(
            "mem", columns=_TRIAL_COLUMNS, records=[_trial_row(config, one) for one in chunk]
        )


def _row(organization: UUID, config: UUID, one: Seed) -> MemoryRow:
    kept = one.kept
    return (
        organization,
        one.id,
        config,
        one.principal,
        FINGERPRINT_VERSION,
        kept.fingerprint,
        kept.text,
        kept.importance,
        " ".join(kept.terms),
        hashed(kept.terms),
        TERMS_VERSION,
        Origin.IMPORT.value,
        one.created_at,
        one.created_at,
    )


def _trial_row(config: UUID, one: Seed) -> tuple[object, ...]:
    kept = one.kept
    scope = (one.id, config, one.principal, kept.fingerprint)
    return (*scope, kept.text, kept.importance, one.created_at, packed(kept.terms))
