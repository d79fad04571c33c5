"""A backup as the runbook makes it comes back on another server, with its roles and with its row-level security."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

from lorebus_ops.postgres_account import account_for
from lorebus_ops.postgres_binaries import bin_folder
from lorebus_store import memories
from lorebus_store.acting import Tenants
from tests.faults.stores import OwnPostgres
from tests.support.databases import ArrangedDatabase, execute, prepare
from tests.support.memory import filled, known_scope


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """A PostgreSQL of its own; its first database as a superuser reaches it."""
    folder.mkdir()
    postgres = OwnPostgres(folder)
    postgres.prepare()
    try:
        postgres.start()
        yield postgres.url()
    finally:
        postgres.close()


def run_of_postgres(programs: Path, program: str, *words: str) -> None:
    """Run a program of PostgreSQL's, which must succeed."""
    subprocess.run([str(programs / program), *words], check=True, capture_output=True)


async def test_a_backup_comes_back_on_another_server_and_keeps_organizations_apart(tmp_path: Path) -> None:
    run = partial(run_of_postgres, bin_folder(account_for(tmp_path)))
    roles, dump = str(tmp_path / "roles.sql"), str(tmp_path / "lorebus.dump")
    with server(tmp_path / "first") as first, server(tmp_path / "second") as second:
        database = ArrangedDatabase(await prepare(first))
        scope = await known_scope(database)
        await filled(database, scope, 3)
        await database.dispose()
        run("pg_dumpall", "--roles-only", "--no-role-passwords", "--file", roles, "--dbname", first)
        run("pg_dump", "--format=custom", "--file", dump, first)

        run("psql", "--quiet", "--file", roles, second)
        await execute(second, "CREATE DATABASE lorebus_restored")
        there = urlsplit(second)._replace(path="/lorebus_restored").geturl()
        run("pg_restore", "--dbname", there, dump)

        restored = ArrangedDatabase(await prepare(there))
        async with restored.read(Tenants.of(scope.organization_uuid)) as connection:
            ours = await memories.list_page(connection, *scope.pair, page=1, per_page=10)
        async with restored.read(Tenants.of(uuid4())) as connection:
            others = await memories.list_page(connection, *scope.pair, page=1, per_page=10)
        await restored.dispose()
    assert sorted(entry.text for entry in ours.items) == ["lesson 0", "lesson 1", "lesson 2"]
    assert others.items == ()
