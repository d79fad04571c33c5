"""The bare trial's processes on the PostgreSQL and broker of a running Lorebus: its gateway and its one consumer."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

import asyncpg

from lorebus_ops.home import LocalInfo
from lorebus_ops.ports import LOOPBACK, accepts_connections, free_port
from lorebus_ops.processes import Child, Program
from tests.bench.database import Stored
from tests.bench.http_wire import Address, post
from tests.bench.lorebus_api import config_uuid
from tests.bench.places import ROOT
from tests.bench.seeding import principal_name
from tests.bench.trial_store import SCHEMA
from tests.bench.workload import Post

DATABASE: Final = "bench_trial"
START_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.02
# `-m` would take the folder that the benchmark was started in.
_FROM_ROOT: Final = """
import runpy, sys
sys.path[0] = sys.argv[1]
del sys.argv[:2]
runpy.run_module(sys.argv[0], run_name="__main__")
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """A running bare trial."""

    address: Address
    database_url: str
    database: asyncpg.Connection

    async def stored(self) -> Stored:
        """What its consumer has committed."""
        row = await self.database.fetchrow(
            "SELECT count(*), coalesce(sum(reinforced + 1), 0)::bigint FROM mem"
        )
        return Stored(*row)


def save_request(of: Post) -> bytes:
    """Keep some memories."""
    entries = [{"text": memory.text, "importance": memory.importance} for memory in of.memories]
    path = f"/save/{config_uuid(str(of.config))}/{principal_name(of.principal)}"
    return post(path, {"entries": entries})


@asynccontextmanager
async def bare_trial(info: LocalInfo, folder: Path) -> AsyncIterator[Trial]:
    """The trial, ready; ended afterwards."""
    url = urlsplit(info.migrations_database_url)._replace(path=f"/{DATABASE}").geturl()
    await _make_database(info.migrations_database_url, url)
    port = free_port()
    with (folder / "trial.log").open("wb") as log:
        gateway = _start("trial_gateway", str(port), url, info.bootstrap_servers, log=log)
        consumer = _start("trial_consumer", url, info.bootstrap_servers, log=log)
        database = await asyncpg.connect(url)
        try:
            await _until_open(gateway, port)
            yield Trial(Address(LOOPBACK, port), url, database)
        finally:
            await database.close()
            consumer.stop()
            gateway.stop()


async def _make_database(server_url: str, url: str) -> None:
    server = await asyncpg.connect(server_url)
    try:
        await server.execute(f"CREATE DATABASE {DATABASE}")
    finally:
        await server.close()
    database = await asyncpg.connect(url)
    try:
        await database.execute(SCHEMA)
    finally:
        await database.close()


def _start(module: str, *words: str, log: IO[bytes]) -> Child:
    argv = (sys.executable, "-c", _FROM_ROOT, str(ROOT), f"tests.bench.{module}", *words)
    return Child.start(Program(name=module, argv=argv), log)


async def _until_open(gateway: Child, port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while gateway.runs and time.monotonic() < deadline:
        if accepts_connections(port):
            return
        await asyncio.sleep(_POLL_SECONDS)
    raise RuntimeError("the bare trial's gateway did not start; its log is `trial.log` in the data's folder")
