"""What every test may ask for: a database of its own, a broker with topics of its own."""

import asyncio
import signal
import uuid
from collections.abc import AsyncIterator, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import asyncpg
import pytest

from lorebus_kit.topics import apply_topics
from tests.faults import record
from tests.support import backends
from tests.support.databases import fresh_database, owner_of, prepare, service_of
from tests.support.output_searches import search_dead_letters
from tests.support.outputs import OUTPUTS, logs_searched

TOPIC_PREFIX: Final = "t"
"""What the topics of all tests begin with but those that plant what is to be found."""

# These tests need a cluster of Apache Kafka: `make test-kafka` runs them.
collect_ignore = [] if backends.wants_apache_kafka() else ["kafka"]


def pytest_configure() -> None:
    """End in good order on SIGTERM as well: fixtures end the processes that they started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On Apache Kafka run its own tests and what asks for a broker; the rest is the same as in `make test`."""
    if not backends.wants_apache_kafka():
        return
    needs = {"bootstrap_servers", "kafka_cluster", "broker"}
    own = Path(__file__).parent / "kafka"
    kept = [
        item
        for item in items
        if item.path.is_relative_to(own) or needs & set(getattr(item, "fixturenames", ()))
    ]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Leave how a scenario ended for its record."""
    report = yield
    if call.when == "call":
        item.stash[record.OUTCOME] = report.outcome
    return report


@pytest.fixture(scope="session", autouse=True)
def outputs_are_searched() -> Iterator[None]:
    """Search what the product says here, and fail for what the end of the shared processes shows."""
    with logs_searched(OUTPUTS):
        yield
    assert OUTPUTS.findings() == []


@pytest.fixture(autouse=True)
def nothing_said_what_nobody_may_say(outputs_are_searched: None) -> Iterator[None]:  # noqa: ARG001 - Its order.
    """No log, metric, error text or header may hold memory text, a token or a key, whatever the test is about."""
    yield
    assert OUTPUTS.findings() == []


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A database whose user may make more databases; nobody's data goes here."""
    with backends.postgres_server() as url:
        yield url


@pytest.fixture(scope="session")
def migrated_template(postgres_url: str) -> Iterator[str]:
    """The name of a migrated database without data, to be copied."""
    name = f"template_{uuid.uuid4().hex}"
    _run(_execute(postgres_url, f'CREATE DATABASE "{name}"'))
    try:
        _run(prepare(database_of(postgres_url, name)))
        yield name
    finally:
        _run(_execute(postgres_url, f'DROP DATABASE "{name}" WITH (FORCE)'))


@pytest.fixture
async def empty_database_url(postgres_url: str) -> AsyncIterator[str]:
    """A database of the test's own without a table, as its owner reaches it."""
    name = f"test_{uuid.uuid4().hex}"
    await _execute(postgres_url, f'CREATE DATABASE "{name}"')
    try:
        yield database_of(postgres_url, name)
    finally:
        await _execute(postgres_url, f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
async def database_url(postgres_url: str, migrated_template: str) -> AsyncIterator[str]:
    """A migrated database of the test's own, as services reach it."""
    async with fresh_database(postgres_url, template=migrated_template) as url:
        yield url


@pytest.fixture(scope="module")
def module_database_url(postgres_url: str, migrated_template: str) -> Iterator[str]:
    """A migrated database that the tests of a module share."""
    name = f"test_{uuid.uuid4().hex}"
    _run(_execute(postgres_url, f'CREATE DATABASE "{name}" TEMPLATE "{migrated_template}"'))
    try:
        yield service_of(database_of(postgres_url, name))
    finally:
        _run(_execute(postgres_url, f'DROP DATABASE "{name}" WITH (FORCE)'))


@pytest.fixture
def owner_url(database_url: str) -> str:
    """The same database as its owner reaches it, past row-level security."""
    return owner_of(database_url)


@pytest.fixture(scope="session")
def bootstrap_servers() -> Iterator[str]:
    """The broker, which the tests of a run share."""
    with backends.broker() as servers:
        yield servers
        _run(search_dead_letters(OUTPUTS, servers, prefix=TOPIC_PREFIX))


@pytest.fixture
def topic_prefix() -> str:
    """Put before every topic and group, it keeps a test's records apart from all others'."""
    return f"{TOPIC_PREFIX}{uuid.uuid4().hex[:12]}."


@pytest.fixture
async def topics(bootstrap_servers: str, topic_prefix: str) -> str:
    """The prefix of topics that are there, dead letters included."""
    await apply_topics(bootstrap_servers, prefix=topic_prefix, partitions=2)
    return topic_prefix


def database_of(server_url: str, name: str) -> str:
    """The address of another database of the same server."""
    return urlsplit(server_url)._replace(path=f"/{name}").geturl()


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _run(work: Coroutine[object, object, object]) -> None:
    # In a thread of its own: the loop of the main thread belongs to the tests.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()
