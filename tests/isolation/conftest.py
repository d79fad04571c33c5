"""Whole systems for the isolation suite: the one place that says as whom services connect, and what holds them."""

from collections.abc import AsyncIterator

import pytest

from tests.isolation import stage as stages
from tests.isolation.stage import HAS_POLICIES, UNFILTERED, Stage, staged

collect_ignore = [] if HAS_POLICIES else ["test_policies_alone.py"]


@pytest.fixture
def owner_url(database_url: str) -> str:
    """The database as whoever owns its tables sees it."""
    return database_url


@pytest.fixture
def service_url(database_url: str) -> str:
    """The database as services see it."""
    return database_url


@pytest.fixture
async def stage(service_url: str, bootstrap_servers: str, topics: str) -> AsyncIterator[Stage]:
    """A whole system as it is in production."""
    async with staged(
        database_url=service_url, bootstrap_servers=bootstrap_servers, topic_prefix=topics
    ) as made:
        yield made


@pytest.fixture
async def unfiltered(service_url: str, bootstrap_servers: str, topics: str) -> AsyncIterator[Stage]:
    """A whole system whose statements ask for no organization: only policies hold it."""
    async with staged(
        database_url=service_url,
        bootstrap_servers=bootstrap_servers,
        topic_prefix=topics,
        launcher=UNFILTERED,
    ) as made:
        yield made


@pytest.fixture
async def unguarded(
    owner_url: str, service_url: str, bootstrap_servers: str, topics: str
) -> AsyncIterator[Stage]:
    """The same without policies: nothing at all is between organizations."""
    await stages.lower_policies(owner_url)
    async with staged(
        database_url=service_url,
        bootstrap_servers=bootstrap_servers,
        topic_prefix=topics,
        launcher=UNFILTERED,
    ) as made:
        yield made
