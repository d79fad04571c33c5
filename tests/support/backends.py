"""The PostgreSQL and the broker that tests run on, from one ladder.

1. Addresses by environment: LOREBUS_TEST_DATABASE_URL, LOREBUS_TEST_BOOTSTRAP_SERVERS.
2. LOREBUS_TEST_BROKER=kafka: an Apache Kafka of our own in the broker's place.
3. Containers, where a Docker engine answers.
4. The embedded pair.

LOREBUS_TEST_BACKEND=containers or embedded (`make test BACKEND=containers`) takes that rung and no other.
Each is a context that ends what it started. Nothing starts before a test asks for it.
"""

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from lorebus_ops.apache_kafka import ApacheKafka
from lorebus_ops.embedded_broker import bootstrap_servers, broker_program
from lorebus_ops.embedded_postgres import EmbeddedPostgres
from lorebus_ops.ports import accepts_connections, free_port
from lorebus_ops.processes import Child, Program
from tests.support.containers import docker_answers, kafka_container, postgres_container

READY_SECONDS: Final = 60.0
STARTS: Final = 5


def wants_apache_kafka() -> bool:
    """True when the suite is to run on Apache Kafka."""
    return os.environ.get("LOREBUS_TEST_BROKER") == "kafka"


def wants_containers() -> bool:
    """True when PostgreSQL and broker are to be containers: asked for, or an engine answers and nothing was asked.

    Raises:
        RuntimeError: they were asked for and no engine answers, or something was asked for that there is not.
    """
    asked = os.environ.get("LOREBUS_TEST_BACKEND", "")
    if asked not in {"", "containers", "embedded"}:
        raise RuntimeError(f"LOREBUS_TEST_BACKEND is {asked!r}; it may be `containers` or `embedded`")
    if asked == "embedded":
        return False
    answers = docker_answers()
    if asked == "containers" and not answers:
        raise RuntimeError(
            "containers were asked for and no Docker engine answers: start one, or set DOCKER_HOST"
        )
    return answers


@contextmanager
def postgres_server() -> Iterator[str]:
    """The address of a database whose user may make more databases."""
    given = os.environ.get("LOREBUS_TEST_DATABASE_URL")
    if given:
        yield given
    elif wants_containers():
        with postgres_container() as url:
            yield url
    else:
        with embedded_postgres() as url:
            yield url


@contextmanager
def broker() -> Iterator[str]:
    """The bootstrap servers of a broker."""
    given = os.environ.get("LOREBUS_TEST_BOOTSTRAP_SERVERS")
    if given:
        yield given
    elif wants_apache_kafka():
        with apache_kafka(brokers=1) as kafka:
            yield kafka.bootstrap_servers
    elif wants_containers():
        with kafka_container() as servers:
            yield servers
    else:
        with embedded_broker() as servers:
            yield servers


@contextmanager
def embedded_postgres() -> Iterator[str]:
    """A PostgreSQL whose data is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="lorebus-postgres-") as folder:
        postgres = EmbeddedPostgres(Path(folder), durable=False)
        postgres.prepare()
        try:
            with _on_free_port(
                postgres.program,
                lambda child, _port: postgres.is_ready(child.process_id),
                Path(folder) / "log",
            ) as port:
                yield postgres.url(port)
        finally:
            postgres.close()


@contextmanager
def embedded_broker(*, advertised: str | None = None) -> Iterator[str]:
    """A broker with nothing in it; one that sends its clients elsewhere, if it is to."""

    def program(port: int) -> Program:
        usual = broker_program(port)
        return usual if advertised is None else replace(usual, argv=(*usual.argv[:-1], advertised))

    with (
        tempfile.TemporaryDirectory(prefix="lorebus-broker-") as folder,
        _on_free_port(program, lambda _child, port: accepts_connections(port), Path(folder) / "log") as port,
    ):
        yield bootstrap_servers(port)


@contextmanager
def apache_kafka(*, brokers: int) -> Iterator[ApacheKafka]:
    """An Apache Kafka cluster with nothing in it."""
    with tempfile.TemporaryDirectory(prefix="lorebus-kafka-") as folder:
        kafka = ApacheKafka(Path(folder))
        try:
            asyncio.run(kafka.start(brokers))
            yield kafka
        finally:
            asyncio.run(kafka.stop())


@contextmanager
def _on_free_port(
    program_at: Callable[[int], Program], is_ready: Callable[[Child, int], bool], log_path: Path
) -> Iterator[int]:
    with log_path.open("wb") as log:
        for _ in range(STARTS):
            port = free_port()
            child = Child.start(program_at(port), log)
            try:
                if child.wait_until(partial(is_ready, child, port), seconds=READY_SECONDS):
                    yield port
                    return
            finally:
                child.stop()
    raise RuntimeError(log_path.read_text())
