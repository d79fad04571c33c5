"""A gateway for each test, on a database of its own."""

from collections.abc import AsyncIterator

import pytest

from tests.support.gateways import Asking, running_gateway


@pytest.fixture
async def gateway(database_url: str) -> AsyncIterator[Asking]:
    """A gateway that accepts through the store, as one organization sees it."""
    async with running_gateway(database_url) as asking:
        yield asking
