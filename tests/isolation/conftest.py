"""Whole systems for the isolation suite: the one place that says what holds services.

They connect as `database_url` says; policies are lowered as their owner, whom `owner_url` says.
"""

from collections.abc import AsyncIterator

import pytest

from tests.isolation import stage as stages
from tests.isolation.stage import UNFILTERED, Stage, staged


@pytest.fixture
async def stage(database_url: str, bootstrap_servers: str, topics: str) -> AsyncIterator[Stage]:
    """A whole system as it is in production."""
    async with staged(
        database_url=database_url, bootstrap_servers=bootstrap_servers, topic_prefix=topics
    ) as made:
        yield made


@pytest.fixture
async def unfiltered(database_url: str, bootstrap_servers: str, topics: str) -> AsyncIterator[Stage]:
    """A whole system whose statements ask for no organization: only policies hold it."""
    async with staged(
        database_url=database_url,
        bootstrap_servers=bootstrap_servers,
        topic_prefix=topics,
        launcher=UNFILTERED,
    ) as made:
        yield made


@pytest.fixture
async def unguarded(
    owner_url: str, database_url: str, bootstrap_servers: str, topics: str
) -> AsyncIterator[Stage]:
    """The same without policies: nothing at all is between organizations."""
    await stages.lower_policies(owner_url)
    async with staged(
        database_url=database_url,
        bootstrap_servers=bootstrap_servers,
        topic_prefix=topics,
        launcher=UNFILTERED,
    ) as made:
        yield made
