"""PostgreSQL and Apache Kafka as containers, for machines with a Docker engine."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lorebus_ops.ports import LOOPBACK, free_port

POSTGRES_IMAGE: Final = "postgres:18"
KAFKA_IMAGE: Final = "apache/kafka:4.3.1"
_ENGINE_SOCKET: Final = Path("/var/run/docker.sock")
_KAFKA_PORT: Final = 9092


def docker_answers() -> bool:
    """True when a Docker engine can be reached and answers."""
    if "DOCKER_HOST" not in os.environ and not _ENGINE_SOCKET.exists():
        return False
    with warnings.catch_warnings():
        # Clients that find no engine leave their sockets to the garbage collector.
        warnings.simplefilter("ignore")
        import docker  # type: ignore[import-untyped]  # noqa: PLC0415 - Ships no types; loaded only where an engine may be.

        try:
            client = docker.from_env()
        except docker.errors.DockerException:
            return False
        try:
            return bool(client.ping())
        except (docker.errors.DockerException, OSError):
            return False
        finally:
            client.close()


@contextmanager
def postgres_container() -> Iterator[str]:
    """The address of a PostgreSQL 18 whose user may make more databases."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from testcontainers.postgres import PostgresContainer  # noqa: PLC0415 - Loaded only where it is used.

        container = PostgresContainer(POSTGRES_IMAGE, username="lorebus", dbname="lorebus", driver=None)
        container.with_command("postgres -c fsync=off -c max_connections=200")
        with container as started:
            yield str(started.get_connection_url())


@contextmanager
def kafka_container() -> Iterator[str]:
    """The bootstrap servers of an Apache Kafka of one broker."""
    port = free_port()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from testcontainers.core.container import DockerContainer  # noqa: PLC0415 - As above.
        from testcontainers.core.waiting_utils import wait_for_logs  # noqa: PLC0415 - As above.

        container = DockerContainer(KAFKA_IMAGE).with_bind_ports(_KAFKA_PORT, port)
        for name, value in _kafka_settings(port).items():
            container.with_env(name, value)
        with container as started:
            wait_for_logs(started, "Kafka Server started", timeout=60)
            yield f"{LOOPBACK}:{port}"


def _kafka_settings(port: int) -> dict[str, str]:
    return {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": f"PLAINTEXT://:{_KAFKA_PORT},CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{LOOPBACK}:{port}",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    }
