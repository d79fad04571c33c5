import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import psutil
import pytest

from lorebus_ops.embedded_postgres import EmbeddedPostgres
from lorebus_ops.ports import free_port
from lorebus_ops.postgres_account import account_for
from lorebus_ops.postgres_binaries import bin_folder, packages_folder
from lorebus_ops.processes import Child
from tests.support.processes import eventually, family, is_gone


@contextmanager
def server(folder: Path) -> Iterator[tuple[Child, str]]:
    postgres = EmbeddedPostgres(folder)
    postgres.prepare()
    port = free_port()
    child = Child.start(postgres.program(port))
    try:
        assert child.wait_until(lambda: postgres.is_ready(child.process_id), seconds=60)
        yield child, postgres.url(port)
    finally:
        child.stop()
        postgres.close()


async def execute(url: str, statement: str) -> str:
    connection = await asyncpg.connect(url)
    try:
        return str(await connection.fetchval(statement))
    finally:
        await connection.close()


@pytest.fixture
def closed_folder(tmp_path: Path) -> Path:
    """A folder under one that nobody but us may enter."""
    parent = tmp_path / "ours alone"
    parent.mkdir(mode=0o700)
    return parent / "deep" / "down"


async def test_it_works_and_keeps_its_data_in_a_folder_that_only_we_may_enter(closed_folder: Path) -> None:
    with server(closed_folder) as (_, url):
        await execute(url, "CREATE TABLE kept AS SELECT 'still there' AS value")

    with server(closed_folder) as (_, url):
        assert await execute(url, "SELECT value FROM kept") == "still there"
    assert closed_folder.parents[1].stat().st_mode & 0o777 == 0o700


async def test_data_survives_a_server_that_was_killed(closed_folder: Path) -> None:
    with server(closed_folder) as (child, url):
        await execute(url, "CREATE TABLE kept AS SELECT 'still there' AS value")
        child.process.kill()
        child.process.wait()

    with server(closed_folder) as (_, url):
        assert await execute(url, "SELECT value FROM kept") == "still there"


async def test_nobody_comes_in_without_the_password(closed_folder: Path) -> None:
    with server(closed_folder) as (_, url):
        other = "postgresql://lorebus:guessed@" + url.rpartition("@")[2]
        with pytest.raises(asyncpg.InvalidPasswordError):
            await execute(other, "SELECT 1")

    assert (closed_folder / "postgres.password").stat().st_mode & 0o777 == 0o600


async def test_it_is_postgresql_18_with_what_the_tables_need(closed_folder: Path) -> None:
    with server(closed_folder) as (_, url):
        assert (await execute(url, "SHOW server_version")).startswith("18.")
        assert await execute(url, "SHOW max_connections") == "200"
        assert await execute(url, "SHOW fsync") == "on"
        assert await execute(url, "SELECT lower('ÄÖ')") == "äö"


async def test_it_listens_on_loopback_only(closed_folder: Path) -> None:
    with server(closed_folder) as (child, url):
        listening = [
            c.laddr for c in psutil.Process(child.process_id).net_connections("all") if c.status == "LISTEN"
        ]

    assert [(address.ip, address.port) for address in listening] == [
        ("127.0.0.1", int(url.rpartition(":")[2].split("/")[0]))
    ]


async def test_an_interrupted_first_start_leaves_nothing_that_is_taken_for_a_database(
    closed_folder: Path,
) -> None:
    half = closed_folder / "postgres.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")

    with server(closed_folder) as (_, url):
        assert await execute(url, "SELECT 1") == "1"
    assert not half.exists()


STARTS_ONE = """
import pathlib, signal, sys
from lorebus_ops.embedded_postgres import EmbeddedPostgres
from lorebus_ops.ports import free_port
from lorebus_ops.processes import Child

postgres = EmbeddedPostgres(pathlib.Path(sys.argv[1]))
postgres.prepare()
child = Child.start(postgres.program(free_port()))
assert child.wait_until(lambda: postgres.is_ready(child.process_id), seconds=60)
print(child.process_id, flush=True)
signal.pause()
"""


async def test_it_does_not_outlive_a_killed_owner(closed_folder: Path) -> None:
    owner = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", STARTS_ONE, str(closed_folder)), stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    processes = family(int(await owner.stdout.readline()))
    assert len(processes) > 1

    owner.send_signal(signal.SIGKILL)
    await owner.communicate()

    await eventually(lambda: all(is_gone(process) for process in processes))


def test_programs_in_a_folder_that_the_servers_user_cannot_enter_are_copied(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(packages_folder() / name, closed / name)

    with tempfile.TemporaryDirectory() as open_folder:
        Path(open_folder).chmod(0o755)
        account = account_for(tmp_path / "postgres")
        copy = Path(open_folder) / "copy"
        found = bin_folder(account, packages=closed, shared_copy=copy)

        assert (account is not None) == found.is_relative_to(copy)
        assert bin_folder(account, packages=closed, shared_copy=copy) == found
    assert closed.stat().st_mode & 0o777 == 0o700
