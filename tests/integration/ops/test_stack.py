import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import asyncpg
import psutil
import pytest
from aiokafka import AIOKafkaProducer

from lorebus_ops.errors import AlreadyRunningError, StackError
from lorebus_ops.home import Home
from lorebus_ops.local_services import MODULES
from lorebus_ops.stack import LocalStack
from tests.support.processes import eventually, family, is_gone


def stack_without_services(home: Path) -> LocalStack:
    return LocalStack(home, services=())


async def execute(url: str, statement: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def publish(servers: str, topic: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all")
    await producer.start()
    try:
        await producer.send_and_wait(topic, b"hello")
    finally:
        await producer.stop()


async def test_while_it_is_up_a_private_file_says_where_everything_is(tmp_path: Path) -> None:
    async with stack_without_services(tmp_path) as stack:
        written = tmp_path / "local.json"
        said = json.loads(written.read_text())
        assert written.stat().st_mode & 0o777 == 0o600
        assert said["pid"] == os.getpid()
        assert said["api_key"].startswith("lrb_")
        assert (
            await execute(said["migrations_database_url"], "SELECT count(*) FROM lorebus.organizations") == 1
        )
        await publish(said["bootstrap_servers"], "memory.save-requested")
        assert Home(tmp_path).running() == stack.info

    assert not written.exists()
    assert Home(tmp_path).running() is None


async def test_stop_leaves_no_process(tmp_path: Path) -> None:
    async with stack_without_services(tmp_path) as stack:
        processes = [p for name in ("database", "broker") for p in family(stack.process_id(name) or 0)]

    assert len(processes) > 2
    assert all(is_gone(process) for process in processes)


async def test_nothing_listens_beyond_loopback(tmp_path: Path) -> None:
    async with stack_without_services(tmp_path) as stack:
        sockets = [
            connection.laddr
            for name in ("database", "broker")
            for process in family(stack.process_id(name) or 0)
            for connection in psutil.Process(process).net_connections("inet")
            if connection.status == psutil.CONN_LISTEN or connection.type.name == "SOCK_DGRAM"
        ]

    assert len(sockets) == 2
    assert {address.ip for address in sockets} == {"127.0.0.1"}


async def test_a_restart_keeps_the_data_and_the_key(tmp_path: Path) -> None:
    async with stack_without_services(tmp_path) as stack:
        first_key = stack.info.api_key
        await execute(
            stack.info.migrations_database_url, "CREATE TABLE kept AS SELECT 'still there' AS value"
        )

    async with stack_without_services(tmp_path) as stack:
        assert await execute(stack.info.migrations_database_url, "SELECT value FROM kept") == "still there"
        assert stack.info.api_key == first_key


async def test_a_killed_broker_comes_back_empty_with_its_topics(tmp_path: Path) -> None:
    async with stack_without_services(tmp_path) as stack:
        os.kill(stack.process_id("broker") or 0, signal.SIGKILL)
        log = stack.home.log_path
        await eventually(lambda: "its topics are made again" in log.read_text())

        await publish(stack.info.bootstrap_servers, "memory.save-requested")


async def test_a_killed_database_comes_back_at_its_address_with_its_data(tmp_path: Path) -> None:
    async with stack_without_services(tmp_path) as stack:
        await execute(
            stack.info.migrations_database_url, "CREATE TABLE kept AS SELECT 'still there' AS value"
        )
        killed = stack.process_id("database") or 0
        os.kill(killed, signal.SIGKILL)
        await eventually(lambda: stack.process_id("database") not in (None, killed))

        assert (
            await eventually_execute(stack.info.migrations_database_url, "SELECT value FROM kept")
            == "still there"
        )


async def eventually_execute(url: str, statement: str) -> object:
    async with asyncio.timeout(30):
        while True:
            try:
                return await execute(url, statement)
            except (OSError, asyncpg.CannotConnectNowError):
                await asyncio.sleep(0.05)


async def test_a_second_one_in_the_same_folder_is_refused_and_told_where_the_first_is(tmp_path: Path) -> None:
    async with stack_without_services(tmp_path):
        with pytest.raises(
            AlreadyRunningError, match=f"already runs in {tmp_path} \\(process {os.getpid()}\\)"
        ):
            await stack_without_services(tmp_path).__aenter__()


async def test_a_second_up_ends_with_exit_code_3(tmp_path: Path) -> None:
    async with stack_without_services(tmp_path):
        second = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "lorebus_ops", "up"),
            env={**os.environ, "LOREBUS_HOME": str(tmp_path)},
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await second.communicate()

    assert second.returncode == 3
    assert f"already runs in {tmp_path} (process {os.getpid()})".encode() in said


async def test_a_service_that_does_not_start_is_named_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODULES, "broken", "no_such_module")
    before = set(family(os.getpid()))

    with pytest.raises(StackError, match=r"(?s)broken did not start.*No module named no_such_module"):
        await LocalStack(tmp_path, services=("broken",)).__aenter__()

    assert set(family(os.getpid())) <= before
    assert not (tmp_path / "local.json").exists()


STARTS_ONE = """
import asyncio, pathlib, sys
from lorebus_ops.stack import LocalStack

async def main():
    async with LocalStack(pathlib.Path(sys.argv[1]), services=()) as stack:
        print(stack.process_id("database"), stack.process_id("broker"), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_none_of_it_outlives_a_killed_owner_and_the_next_one_starts(tmp_path: Path) -> None:
    owner = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", STARTS_ONE, str(tmp_path)), stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    roots = [int(word) for word in (await owner.stdout.readline()).split()]
    processes = [process for root in roots for process in family(root)]

    owner.send_signal(signal.SIGKILL)
    await owner.communicate()

    async with stack_without_services(tmp_path) as stack:
        assert await execute(stack.info.migrations_database_url, "SELECT 1") == 1
        assert all(is_gone(process) for process in processes)
