"""Apache Kafka of our own, one broker or three, in KRaft mode on the loopback address, for the tests.

The rule that must not break: with three brokers one may be killed at any moment, and nothing that was confirmed
with acks=all is lost (replication factor 3, two in-sync replicas).
"""

import asyncio
import base64
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lorebus_ops.errors import StackError
from lorebus_ops.kafka_jars import jars_folder
from lorebus_ops.ports import LOOPBACK, free_ports
from lorebus_ops.processes import Child, Program

START_SECONDS: Final = 90.0
STOP_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.05
_STARTED: Final = "Kafka Server started"
_REPLICAS: Final = 3

_JAVA: Final = (
    *("java", "-Xms64m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    # The one line by which a broker says that it takes part.
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
)


@dataclass(slots=True)
class _Broker:
    broker_id: int
    port: int
    controller_port: int
    folder: Path
    child: Child | None = None

    @property
    def log_path(self) -> Path:
        return self.folder / "broker.log"


class ApacheKafka:
    """A cluster whose brokers are numbered from 1; its data and logs lie in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._jars = Path()
        self._brokers: dict[int, _Broker] = {}

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: every broker, also one that is down."""
        return ",".join(f"{LOOPBACK}:{broker.port}" for broker in self._brokers.values())

    def process_id(self, broker_id: int) -> int | None:
        """The process of this broker; None while it is down."""
        child = self._brokers[broker_id].child
        return child.process_id if child is not None and child.runs else None

    async def start(self, brokers: int = _REPLICAS) -> None:
        """Format the storage and start all brokers.

        Raises:
            StackError: Java, Maven or the jars are missing, or a broker did not start.
        """
        self._jars = jars_folder()
        ports = free_ports(2 * brokers)
        for broker_id, (port, controller_port) in enumerate(
            zip(ports[::2], ports[1::2], strict=True), start=1
        ):
            folder = self._folder / str(broker_id)
            folder.mkdir(parents=True)
            self._brokers[broker_id] = _Broker(broker_id, port, controller_port, folder)
        self._write_settings()
        await self._format()
        for broker_id in self._brokers:
            self._spawn(broker_id)
        await asyncio.gather(*(self._wait_until_started(broker_id) for broker_id in self._brokers))

    async def stop(self) -> None:
        """End every broker; what they held goes with the folder, so there is nothing to save."""
        for broker in self._brokers.values():
            if broker.child is not None:
                broker.child.kill()

    async def kill(self, broker_id: int) -> None:
        """End one broker as a crash would (kill -9)."""
        child = self._brokers[broker_id].child
        if child is not None:
            child.kill()

    async def restart(self, broker_id: int) -> None:
        """Bring one broker back with the data it had, ended before in good order if it runs.

        Raises:
            StackError: it did not start.
        """
        child = self._brokers[broker_id].child
        if child is not None:
            await asyncio.to_thread(child.stop)
        self._brokers[broker_id].log_path.unlink()
        self._spawn(broker_id)
        await self._wait_until_started(broker_id)

    def _write_settings(self) -> None:
        copies = len(self._brokers)
        voters = ",".join(f"{b.broker_id}@{LOOPBACK}:{b.controller_port}" for b in self._brokers.values())
        for broker in self._brokers.values():
            settings = {**_settings(copies), **_own_settings(broker), "controller.quorum.voters": voters}
            text = "".join(f"{name}={value}\n" for name, value in settings.items())
            (broker.folder / "server.properties").write_text(text)

    async def _format(self) -> None:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        runs = [
            await asyncio.create_subprocess_exec(
                *(*_JAVA, "-cp", f"{self._jars}/*", "kafka.tools.StorageTool", "format"),
                # In one word: every 64th id begins with a dash, which would be taken for an option.
                *(f"--cluster-id={cluster_id}", "-c", str(broker.folder / "server.properties")),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            for broker in self._brokers.values()
        ]
        for run, (output, _) in zip(
            runs, await asyncio.gather(*(run.communicate() for run in runs)), strict=True
        ):
            if run.returncode != 0:
                raise StackError(f"the storage of Apache Kafka could not be formatted: {output.decode()}")

    def _spawn(self, broker_id: int) -> None:
        broker = self._brokers[broker_id]
        program = Program(
            name=f"kafka-{broker_id}",
            argv=(*_JAVA, "-cp", f"{self._jars}/*", "kafka.Kafka", str(broker.folder / "server.properties")),
            stop_seconds=STOP_SECONDS,
        )
        with broker.log_path.open("wb") as log:
            broker.child = Child.start(program, log)

    async def _wait_until_started(self, broker_id: int) -> None:
        broker = self._brokers[broker_id]
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        while _STARTED not in broker.log_path.read_text():
            late = asyncio.get_running_loop().time() > deadline
            if late or self.process_id(broker_id) is None:
                raise StackError(f"broker {broker_id} did not start: {broker.log_path.read_text()[-3000:]}")
            await asyncio.sleep(_POLL_SECONDS)


def _own_settings(broker: _Broker) -> dict[str, str]:
    listener = f"PLAINTEXT://{LOOPBACK}:{broker.port}"
    return {
        "node.id": str(broker.broker_id),
        "listeners": f"{listener},CONTROLLER://{LOOPBACK}:{broker.controller_port}",
        "advertised.listeners": listener,
        "log.dirs": str(broker.folder / "data"),
    }


def _settings(copies: int) -> dict[str, str]:
    in_sync = "2" if copies >= _REPLICAS else "1"
    return {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(copies),
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": str(copies),
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": str(copies),
        "share.coordinator.state.topic.min.isr": in_sync,
        # A test does not wait for more members, nor nine seconds for a dead broker to be missed.
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "500",
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "log.cleaner.enable": "false",
    }
