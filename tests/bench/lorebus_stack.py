"""Lorebus as `lorebus up` starts it, beside it a second gateway that accepts on the bus, as production does.

The rule that must not break: everything is a process of its own, started the way a user starts it; the benchmark's own
process holds none of it.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

import psutil

from lorebus_ops.home import FOLDER_VARIABLE, Home, LocalInfo
from lorebus_ops.local_services import MODULES
from lorebus_ops.ports import accepts_connections, free_port
from lorebus_ops.processes import Child, Program
from tests.bench.http_wire import Address, Connection, request
from tests.bench.lorebus_api import LorebusApi

START_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.02
BUS_GATEWAY: Final = "gateway (bus)"


@dataclass(frozen=True, slots=True)
class LorebusStack:
    """A running stack: its two gateways, its PostgreSQL and broker, and its processes by name."""

    info: LocalInfo
    store: LorebusApi
    bus: LorebusApi
    processes: Mapping[str, psutil.Process]

    @property
    def organization(self) -> UUID:
        """Whose key it is."""
        return UUID(self.info.organization_uuid)

    @property
    def database_url(self) -> str:
        """PostgreSQL, as the owner of the tables."""
        return self.info.migrations_database_url


@asynccontextmanager
async def lorebus_stack(folder: Path) -> AsyncIterator[LorebusStack]:
    """The stack of this folder, both gateways ready; ended afterwards."""
    with lorebus_up(folder) as up:
        info = await until_up(up, folder)
        store = LorebusApi(Address.of(info.gateway_url), info.api_key)
        processes = service_processes(up.process_id)
        port = free_port()
        with (folder / "bus-gateway.log").open("wb") as log:
            gateway = Child.start(_bus_gateway(processes["gateway"], port), log)
            try:
                bus = Address("127.0.0.1", port)
                await _until_ready(gateway, bus)
                processes[BUS_GATEWAY] = psutil.Process(gateway.process_id)
                yield LorebusStack(info, store, LorebusApi(bus, info.api_key), processes)
            finally:
                gateway.stop()


@contextmanager
def lorebus_up(folder: Path) -> Iterator[Child]:
    """`lorebus up` in this folder, which may not be ready yet."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOREBUS_")}
    with (folder / "up.log").open("wb") as log:
        up = Child.start(
            Program(
                name="lorebus up",
                argv=(sys.executable, "-m", "lorebus_ops", "up"),
                env={**environment, FOLDER_VARIABLE: str(folder)},
                stop_seconds=60.0,
            ),
            log,
        )
        try:
            yield up
        finally:
            up.stop()


async def until_up(up: Child, folder: Path) -> LocalInfo:
    """Where everything is, once all of it is ready.

    Raises:
        RuntimeError: it did not start; the text is what it said.
    """
    deadline = time.monotonic() + START_SECONDS
    while up.runs and time.monotonic() < deadline:
        info = Home(folder).running() if (folder / "local.json").exists() else None
        if info is not None:
            return info
        await asyncio.sleep(_POLL_SECONDS)
    raise RuntimeError(f"lorebus up did not start: {(folder / 'up.log').read_text()[-2000:]}")


def service_processes(parent: int) -> dict[str, psutil.Process]:
    """The services that this process keeps up, by the names that it gives them."""
    found: dict[str, psutil.Process] = {}
    for child in psutil.Process(parent).children():
        words = child.cmdline()
        found |= {name: child for name, module in MODULES.items() if words[-1:] == [module]}
    return found


def _bus_gateway(like: psutil.Process, port: int) -> Program:
    told = {**like.environ(), "LOREBUS_ACCEPT": "bus", "LOREBUS_HTTP_PORT": str(port)}
    return Program(name=BUS_GATEWAY, argv=(sys.executable, "-m", MODULES["gateway"]), env=told)


async def _until_ready(gateway: Child, address: Address) -> None:
    deadline = time.monotonic() + START_SECONDS
    while gateway.runs and time.monotonic() < deadline:
        if accepts_connections(address.port):
            connection = await Connection.open(address)
            answer = await connection.ask(request("GET", "/health/ready"))
            connection.close()
            if answer.status == 200:
                return
        await asyncio.sleep(_POLL_SECONDS)
    raise RuntimeError("the gateway that accepts on the bus did not become ready")
