"""A gateway for each test, and every way to its tools."""

from collections.abc import AsyncIterator

import pytest

from tests.support.gateways import Asking, running_gateway
from tests.support.mcp_clients import Connect, over_http, over_http_of_2025, over_stdio


@pytest.fixture
async def gateway(database_url: str) -> AsyncIterator[Asking]:
    """A gateway that accepts through the store, as one organization sees it."""
    async with running_gateway(database_url) as asking:
        yield asking


@pytest.fixture(params=[over_http, over_http_of_2025, over_stdio])
def connect(request: pytest.FixtureRequest) -> Connect:
    """One way to the tools after the other."""
    way: Connect = request.param
    return way
