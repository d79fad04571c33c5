"""What a scenario plays on: the two stores, each behind a proxy, the product's services, and views of what they did."""

import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import asyncpg
import httpx
from aiokafka import TopicPartition

from lorebus_contracts.topics import TOPICS
from lorebus_kit.bus import BusProducer
from lorebus_kit.topics import apply_topics
from tests.faults.offsets import lag_of, records_in
from tests.faults.stores import OwnPostgres
from tests.support.databases import execute, owner_of, prepare
from tests.support.load import Ledger
from tests.support.output_searches import search_dead_letters, search_runs
from tests.support.outputs import OUTPUTS
from tests.support.proxy import FaultProxy, proxy_before
from tests.support.services import Service, services, until
from tests.support.waiting import eventually

SETTLE_SECONDS: Final = 60.0
"""How long a test waits for quiet where no promise is shorter."""


async def grows(measure: Callable[[], int], *, by: int, what: str) -> None:
    """Wait until the measure is greater by this much than it is now.

    Raises:
        TimeoutError: it was not in time; the text says what was measured.
    """
    enough = measure() + by
    await until(lambda: measure() >= enough, seconds=SETTLE_SECONDS, what=f"{by} more: {what}")


@dataclass(slots=True)
class Stage:
    """One scenario's database and topics, and how to get at them with and without faults."""

    database_url: str
    """Direct, as services reach it."""

    database_port: int
    bootstrap_servers: str
    topic_prefix: str
    partitions: int
    rng: random.Random
    database_proxy: FaultProxy
    """What services go through unless they are given one of their own."""

    _stack: AsyncExitStack
    ledger: Ledger = field(default_factory=Ledger)
    _connection: asyncpg.Connection | None = None
    _bus: BusProducer | None = None

    async def start(
        self,
        *names: str,
        settings: Mapping[str, str] | None = None,
        through: FaultProxy | None = None,
        wait: bool = True,
    ) -> tuple[Service, ...]:
        """Start these services; ended with the stage."""
        return await self._stack.enter_async_context(
            services(
                *names,
                database_url=self.url_through(through or self.database_proxy),
                bootstrap_servers=self.bootstrap_servers,
                topic_prefix=self.topic_prefix,
                extra=settings,
                wait=wait,
            )
        )

    async def own_proxy(self) -> FaultProxy:
        """A proxy before PostgreSQL for one service alone."""
        return await self._stack.enter_async_context(proxy_before(self.database_port))

    def url_through(self, proxy: FaultProxy) -> str:
        """The database as it is reached through a proxy."""
        address = urlsplit(self.database_url)
        return address._replace(netloc=f"{address.netloc.rpartition(':')[0]}:{proxy.port}").geturl()

    async def bus(self) -> BusProducer:
        """A producer for the test's own events."""
        if self._bus is None:
            self._bus = BusProducer(self.bootstrap_servers, topic_prefix=self.topic_prefix)
            self._stack.push_async_callback(self._bus.stop)
            await self._bus.start(wait_seconds=SETTLE_SECONDS)
        return self._bus

    async def database(self) -> asyncpg.Connection:
        """A connection of the test's own; made again when PostgreSQL has been away."""
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(owner_of(self.database_url))
        return self._connection

    async def fetch(self, query: str, *values: object) -> Any:  # noqa: ANN401 - A value of an untyped driver.
        """The first value of the first row."""
        return await (await self.database()).fetchval(query, *values)

    async def accepts(self, more: int, *, ledger: Ledger | None = None) -> None:
        """Wait until this many more events are accepted."""
        accepted = (self.ledger if ledger is None else ledger).accepted
        await grows(lambda: len(accepted), by=more, what="accepted events")

    async def completed(self, run_ids: list[UUID]) -> bool:
        """Whether all of these runs have completed."""
        query = "SELECT count(*) FROM lorebus.workflow_runs WHERE id = ANY($1) AND state_name = 'completed'"
        return bool(await self.fetch(query, run_ids) == len(run_ids))

    async def end_leases(self) -> None:
        """Let the leases of distills end at once, as half a minute would."""
        await self.fetch(
            "UPDATE lorebus.workflow_runs SET due_at = now(), lease_until = now() WHERE lease_token IS NOT NULL"
        )

    async def settled(self, *, seconds: float = SETTLE_SECONDS) -> None:
        """Wait until nothing waits in the outbox, no run is under way and every record is acknowledged.

        Raises:
            TimeoutError: something is stuck.
        """
        try:
            await eventually(self._is_settled, what="nothing waits anywhere", seconds=seconds)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; {await self._what_waits()}") from error

    async def _is_settled(self) -> bool:
        # The outbox is looked at once more: a record that was handled meanwhile may have caused another.
        return not (await self._waiting() or await self.lag() or await self._waiting())

    async def _waiting(self) -> int:
        return int(
            await self.fetch(
                "SELECT (SELECT count(*) FROM lorebus.outbox)"
                " + (SELECT count(*) FROM lorebus.workflow_runs WHERE state_name IN ('initiated', 'run'))"
            )
        )

    async def _what_waits(self) -> str:
        runs = await (await self.database()).fetch(
            "SELECT type, state_name, attempts, count(*) AS runs FROM lorebus.workflow_runs"
            " WHERE state_name IN ('initiated', 'run') GROUP BY 1, 2, 3"
        )
        rows = await self.fetch("SELECT count(*) FROM lorebus.outbox")
        return f"outbox {rows}, lag {await self.lag()}, runs {[tuple(row) for row in runs]}"

    async def lag(self) -> int:
        """Records that some group has not yet acknowledged."""
        groups = sorted({group for topic in TOPICS for group in topic.groups})
        behind = [
            await lag_of(
                self.bootstrap_servers,
                self.topic_prefix + group,
                self.partitions_of(*(topic.name for topic in TOPICS if group in topic.groups)),
            )
            for group in groups
        ]
        return sum(behind)

    async def dead_letters(self) -> int:
        """How many records lie in all dead-letter topics."""
        names = [topic.dead_letters(group) for topic in TOPICS for group in topic.groups]
        return await records_in(self.bootstrap_servers, self.partitions_of(*names))

    def partitions_of(self, *topics: str) -> list[TopicPartition]:
        """All partitions of these topics, which are named without prefix."""
        return [
            TopicPartition(self.topic_prefix + name, n) for name in topics for n in range(self.partitions)
        ]

    async def disconnect(self) -> None:
        """Let go of the test's own connection, which is made again when it is needed."""
        if self._connection is not None and not self._connection.is_closed():
            await self._connection.close()
        self._connection = None


@asynccontextmanager
async def staged(
    postgres: OwnPostgres,
    bootstrap_servers: str,
    rng: random.Random,
    *,
    partitions: int,
    replication_factor: int = 1,
) -> AsyncIterator[Stage]:
    """A stage with a migrated database and topics of its own."""
    async with AsyncExitStack() as stack:
        made = Stage(
            database_url=await _new_database(postgres.url()),
            database_port=postgres.port,
            bootstrap_servers=bootstrap_servers,
            topic_prefix=f"f{uuid4().hex[:12]}.",
            partitions=partitions,
            rng=rng,
            database_proxy=await stack.enter_async_context(proxy_before(postgres.port)),
            _stack=stack,
        )
        stack.push_async_callback(made.disconnect)
        await apply_topics(
            bootstrap_servers,
            prefix=made.topic_prefix,
            partitions=partitions,
            replication_factor=replication_factor,
        )
        yield made
        owner_url = urlsplit(postgres.url())._replace(path=urlsplit(made.database_url).path).geturl()
        await search_runs(OUTPUTS, owner_url)
        await search_dead_letters(OUTPUTS, bootstrap_servers, prefix=made.topic_prefix)


async def _new_database(server_url: str) -> str:
    name = f"faults_{uuid4().hex}"
    await execute(server_url, f'CREATE DATABASE "{name}"')
    url = urlsplit(server_url)._replace(path=f"/{name}").geturl()
    return await prepare(url)


async def gauge(service: Service, name: str) -> float:
    """The sum of a gauge of the service over all its labels."""
    async with httpx.AsyncClient() as client:
        page = (await client.get(f"{service.url}/metrics", timeout=5.0)).text
    lines = [line for line in page.splitlines() if line.startswith((f"{name}{{", f"{name} "))]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


async def health(service: Service, path: str = "") -> httpx.Response:
    """What a service says of itself: everything, or `/live` or `/ready`."""
    async with httpx.AsyncClient() as client:
        return await client.get(f"{service.url}/health{path}", timeout=5.0)
