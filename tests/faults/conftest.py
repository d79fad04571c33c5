"""The stores and the stage of the fault suite."""

from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest

from lorebus_ops.ports import LOOPBACK
from tests.faults import record
from tests.faults.record import Fault
from tests.faults.stage import Stage, staged
from tests.faults.stores import OwnBroker, OwnPostgres, own_broker, own_postgres
from tests.support import backends
from tests.support.proxy import FaultProxy, proxy_before

PARTITIONS: Final = 4
# Apache Kafka keeps its records over a restart.
collect_ignore = ["test_empty_broker.py"] if backends.wants_apache_kafka() else []


@pytest.fixture(scope="session")
def own_database() -> Iterator[OwnPostgres]:
    """The PostgreSQL that scenarios may crash and freeze; running again afterwards."""
    with own_postgres() as postgres:
        yield postgres


@pytest.fixture(scope="session")
def broker() -> Iterator[OwnBroker]:
    """The broker, behind the address of a proxy."""
    with own_broker() as started:
        yield started


@pytest.fixture
async def broker_proxy(broker: OwnBroker) -> AsyncIterator[FaultProxy]:
    """The proxy at the address that the broker tells its clients."""
    async with proxy_before(broker.port, at=broker.proxy_port) as proxy:
        yield proxy


@pytest.fixture
def fault(request: pytest.FixtureRequest, broker: OwnBroker) -> Iterator[Fault]:
    """What the scenario is to do how often; its line is written at the end."""
    yield from record.recorded(request, broker.name)


@pytest.fixture
def partitions() -> int:
    """How many partitions each topic has; a test with more members overrides it."""
    return PARTITIONS


@pytest.fixture
async def stage(
    own_database: OwnPostgres, broker_proxy: FaultProxy, fault: Fault, partitions: int
) -> AsyncIterator[Stage]:
    """A database and topics of the scenario's own, behind the proxies."""
    servers = f"{LOOPBACK}:{broker_proxy.port}"
    async with staged(own_database, servers, fault.rng, partitions=partitions) as made:
        yield made
