"""Row-level security changes no plan: every statement of the store takes the indexes that it took without."""

import importlib
import pkgutil
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Final

import asyncpg
import pytest

import lorebus_store
from lorebus_store import candidates
from lorebus_store.acting import ActsFor, SystemRole, opening
from lorebus_store.statements import Statement
from tests.integration.store.builders import BOTH, CONFIG, ORGANIZATION
from tests.support.databases import owner_of

AS_SERVICES_PLAN: Final = "SET jit = off; SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off"
OF_THE_SYSTEM: Final[Mapping[str, ActsFor]] = {
    "outbox._LEASE": SystemRole.RELAY,
    "outbox._PENDING": SystemRole.RELAY,
    "outbox._DELETE": SystemRole.RELAY,
    "outbox._RELEASE": SystemRole.RELAY,
    "outbox._DEPTH": SystemRole.RELAY,
    "leases._CLAIM": SystemRole.HOUSEKEEPING,
    "runs._SWEEP_STALE": SystemRole.HOUSEKEEPING,
    "reach._NEXT": SystemRole.HOUSEKEEPING,
    "retention._RUNS": SystemRole.HOUSEKEEPING,
    "retention._EVENTS": SystemRole.HOUSEKEEPING,
    "retention._KEYS": SystemRole.HOUSEKEEPING,
    "retention._WINDOWS": SystemRole.HOUSEKEEPING,
}
_SCAN: Final = re.compile(r"((?:Index|Bitmap|Seq|Tid)[A-Za-z ]*Scan)(?: Backward)?(?: using (\w+))? on (\w+)")
_NUMBERED: Final = re.compile(r"(?:InitPlan |SubPlan |_)\d+\b")


def statements() -> Iterator[tuple[str, Statement]]:
    """Every statement of the store that is about our tables alone, by the name of its module and its own."""
    for module in pkgutil.iter_modules(lorebus_store.__path__):
        if module.name == "migrations":
            continue
        for name, found in vars(importlib.import_module(f"lorebus_store.{module.name}")).items():
            for statement in _in(found):
                if "lorebus." in statement.sql and "pg_temp" not in statement.sql:
                    yield f"{module.name}.{name}", statement


def _in(found: object) -> Iterator[Statement]:
    if isinstance(found, Statement):
        yield found
    elif isinstance(found, dict):
        for each in found.values():
            yield from _in(each)
    elif isinstance(found, tuple):
        for each in found:
            yield from _in(each)


@pytest.fixture
async def owner(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    async for connection in _connected(owner_of(database_url)):
        yield connection


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    async for connection in _connected(database_url):
        yield connection


async def _connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url, statement_cache_size=0)
    await connection.execute(AS_SERVICES_PLAN)
    yield connection
    await connection.close()


async def plan(connection: asyncpg.Connection, statement: Statement, begin: str = "BEGIN") -> Sequence[str]:
    """How the server would run it for whatever values."""
    unknown = f"({', '.join(['NULL'] * len(statement.parameters))})" if statement.parameters else ""
    await connection.execute(f"{begin}; PREPARE asked AS {statement.sql}")
    try:
        lines = await connection.fetch(f"EXPLAIN (COSTS false) EXECUTE asked {unknown}")
    finally:
        await connection.execute("ROLLBACK; DEALLOCATE asked")
    return [line[0] for line in lines]


def indexes(lines: Sequence[str]) -> list[str]:
    """What is scanned by which index with which conditions, in no order."""
    scans = [" ".join(map(str, found.groups())) for line in lines if (found := _SCAN.search(line))]
    conditions = [
        _NUMBERED.sub("", line.strip()) for line in lines if "Index Cond" in line or "TID Cond" in line
    ]
    return sorted(scans + conditions)


async def test_every_statement_takes_the_same_indexes_below_the_wall(
    owner: asyncpg.Connection, service: asyncpg.Connection
) -> None:
    different = []
    names = set()
    for name, statement in statements():
        names.add(name)
        begin = f"BEGIN; {opening(OF_THE_SYSTEM.get(name, BOTH))}"
        before = indexes(await plan(owner, statement))
        after = indexes(await plan(service, statement, begin))
        if before != after:
            different.append((name, before, after))
    assert different == []
    assert names > set(OF_THE_SYSTEM)


async def test_a_search_by_words_walks_the_full_text_index_below_the_wall(
    owner: asyncpg.Connection, service: asyncpg.Connection
) -> None:
    await owner.execute(
        f"""
        INSERT INTO lorebus.memories (organization_uuid, id, agent_config_uuid, principal_ref, fingerprint_version,
            fingerprint, text, importance, terms, terms_version, origin, in_reach)
        SELECT '{ORGANIZATION}', gen_random_uuid(), '{CONFIG}', CASE WHEN i % 2 = 0 THEN 'alice' END, 1,
            sha256(int4send(i)), 'text', 0.5, 'w' || i % 5000 || ' x' || i % 300, 1, 'runner', true
        FROM generate_series(1, 30000) AS i
        """  # noqa: S608  # Constants of the tests.
    )
    await owner.execute("VACUUM ANALYZE lorebus.memories")
    lines = await plan(service, candidates._ALL[True, True], f"BEGIN; {opening(BOTH)}")
    assert len([line for line in lines if "Bitmap Index Scan on memories_terms" in line]) == 2
    words = [line for line in lines if "terms_vector @@" in line and "Index Cond" in line]
    assert len(words) == 2
