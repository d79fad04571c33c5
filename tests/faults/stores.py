"""The PostgreSQL and the broker of the fault suite: of its own, because it kills, freezes and empties them.

PostgreSQL is durable here, as in production: what it has confirmed survives its crash. The broker tells its clients the
address of a proxy, so that no client gets past the faults.
"""

import asyncio
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

import psutil

from lorebus_ops.apache_kafka import ApacheKafka
from lorebus_ops.embedded_broker import broker_program
from lorebus_ops.embedded_postgres import EmbeddedPostgres
from lorebus_ops.ports import LOOPBACK, accepts_connections, free_port
from lorebus_ops.processes import Child, Program
from tests.support import backends
from tests.support.processes import family

READY_SECONDS: Final = 60.0


class OwnPostgres:
    """A PostgreSQL that may be ended as by a crash, and frozen."""

    def __init__(self, folder: Path) -> None:
        self._embedded = EmbeddedPostgres(folder)
        self._log = folder / "log"
        self._child: Child | None = None
        self.port = free_port()

    def start(self) -> None:
        """Start, or start again with the data that is there, and wait until it takes connections."""
        self._child = _started(
            self._embedded.program(self.port),
            lambda child: self._embedded.is_ready(child.process_id),
            self._log,
        )

    def prepare(self) -> None:
        """Make the data folder."""
        self._embedded.prepare()

    def crash(self) -> None:
        """Immediate shutdown: no session is asked, nothing is flushed, the next start recovers."""
        child = self._running()
        child.process.send_signal(signal.SIGQUIT)
        child.process.wait(READY_SECONDS)

    def freeze(self) -> None:
        """Stop every process of it where it stands."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them go on."""
        self._signal_all(signal.SIGCONT)

    def recover(self) -> None:
        """Whatever was done to it: let it run."""
        if self._running().runs:
            self.thaw()
        else:
            self.start()

    def close(self) -> None:
        """End it; nobody will miss its data, so that it need not be written."""
        if self._child is not None and self._child.runs:
            self.thaw()
            self.crash()
        self._embedded.close()

    def url(self) -> str:
        """Its first database, directly."""
        return self._embedded.url(self.port)

    def _running(self) -> Child:
        if self._child is None:
            raise RuntimeError("PostgreSQL was not started")
        return self._child

    def _signal_all(self, number: signal.Signals) -> None:
        for process_id in family(self._running().process_id):
            if psutil.pid_exists(process_id):
                psutil.Process(process_id).send_signal(number)


class OwnBroker(Protocol):
    """A broker behind the address of a proxy."""

    name: str
    """As the report calls it."""

    proxy_port: int
    """Where it tells its clients to go."""

    @property
    def port(self) -> int:
        """Where it listens itself."""


class OwnTansu:
    """The embedded broker, which forgets everything when it ends."""

    name = "embedded (Tansu)"

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.proxy_port = free_port()
        self._log = folder / "log"
        self._child: Child | None = None

    def start(self) -> None:
        """Start with nothing in it."""
        program = broker_program(self.port)
        told = f"tcp://{LOOPBACK}:{self.proxy_port}"
        self._child = _started(
            replace(program, argv=(*program.argv[:-1], told)),
            lambda _child: accepts_connections(self.port),
            self._log,
        )

    def restart_empty(self) -> None:
        """Kill it and start it again: its records, topics and groups are gone."""
        self.close()
        self.start()

    def close(self) -> None:
        """End it as a crash would."""
        if self._child is not None:
            self._child.kill()


class OwnKafka(ApacheKafka):
    """Apache Kafka of one broker."""

    name = "Apache Kafka"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server_settings = folder / "1" / "server.properties"
        self.proxy_port = free_port()

    @property
    def port(self) -> int:
        """Where the broker listens itself."""
        return int(self.bootstrap_servers.rpartition(":")[2])

    def _write_settings(self) -> None:
        super()._write_settings()
        text = self._server_settings.read_text()
        own, told = (
            f"advertised.listeners=PLAINTEXT://{LOOPBACK}:{p}\n" for p in (self.port, self.proxy_port)
        )
        if own not in text:
            raise AssertionError("the broker's settings have another form than this test knows")
        self._server_settings.write_text(text.replace(own, told))


@contextmanager
def own_postgres() -> Iterator[OwnPostgres]:
    """A durable PostgreSQL, started."""
    with tempfile.TemporaryDirectory(prefix="lorebus-faults-postgres-") as folder:
        postgres = OwnPostgres(Path(folder))
        postgres.prepare()
        try:
            postgres.start()
            yield postgres
        finally:
            postgres.close()


@contextmanager
def own_broker() -> Iterator[OwnBroker]:
    """The broker that the suite runs on, started behind the address of a proxy that is not there yet."""
    with tempfile.TemporaryDirectory(prefix="lorebus-faults-broker-") as folder:
        if backends.wants_apache_kafka():
            kafka = OwnKafka(Path(folder))
            try:
                asyncio.run(kafka.start(1))
                yield kafka
            finally:
                asyncio.run(kafka.stop())
        else:
            tansu = OwnTansu(Path(folder))
            try:
                tansu.start()
                yield tansu
            finally:
                tansu.close()


def _started(program: Program, is_ready: Callable[[Child], bool], log_path: Path) -> Child:
    with log_path.open("ab") as log:
        child = Child.start(program, log)
    if not child.wait_until(lambda: is_ready(child), seconds=READY_SECONDS):
        child.stop()
        raise RuntimeError(log_path.read_text())
    return child
