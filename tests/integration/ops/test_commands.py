import asyncio
import json
import sys
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
from aiokafka.admin import AIOKafkaAdminClient

from lorebus_kit.keys import key_hash
from tests.support.databases import execute

ORGANIZATION = "0190a000-0000-7000-8000-000000000001"


async def lorebus(*words: str, home: Path) -> tuple[int | None, str, str]:
    """Exit code, standard output and standard error of the command."""
    command = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lorebus_ops", *words),
        env={"LOREBUS_HOME": str(home)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await command.communicate()
    return command.returncode, output.decode(), errors.decode()


async def fetch(url: str, query: str) -> list[tuple[object, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


async def topics_of(servers: str) -> set[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        return set(await admin.list_topics())
    finally:
        await admin.close()


async def test_a_key_is_printed_once_and_kept_as_a_hash(
    database_url: str, owner_url: str, tmp_path: Path
) -> None:
    code, output, _ = await lorebus(
        *("keys", "create", "--organization", ORGANIZATION, "--name", "ci"),
        *("--database-url", database_url),
        home=tmp_path,
    )

    kept = await fetch(owner_url, "SELECT key_hash, name, organization_uuid FROM lorebus.api_keys")
    assert code == 0
    assert kept == [(key_hash(output.strip().encode()), "ci", uuid.UUID(ORGANIZATION))]


async def test_migrate_brings_an_empty_database_to_the_newest_tables(
    empty_database_url: str, tmp_path: Path
) -> None:
    code, output, _ = await lorebus("migrate", "--database-url", empty_database_url, home=tmp_path)

    assert code == 0
    assert output.startswith("the database is at revision ")
    assert await fetch(empty_database_url, "SELECT count(*) FROM lorebus.memories") == [(0,)]


async def test_migrate_makes_the_login_that_services_connect_with(
    empty_database_url: str, tmp_path: Path
) -> None:
    address = urlsplit(empty_database_url)
    login = f"login_{uuid.uuid4().hex}"
    service_url = address._replace(netloc=f"{login}:secret@{address.netloc.rpartition('@')[2]}").geturl()
    addresses = ("--migrations-database-url", empty_database_url, "--database-url", service_url)
    try:
        first = await lorebus("migrate", *addresses, home=tmp_path)
        again = await lorebus("migrate", *addresses, home=tmp_path)
        code, key, _ = await lorebus(
            "keys", "create", "--organization", ORGANIZATION, "--database-url", service_url, home=tmp_path
        )
        seen = await fetch(service_url, "SELECT count(*) FROM lorebus.api_keys")
    finally:
        await execute(empty_database_url, f'DROP ROLE "{login}"')

    assert (first[0], again[0], code, key[:4]) == (0, 0, 0, "lrb_")
    assert seen == [(0,)]


async def test_no_key_is_made_over_the_login_of_the_owner(owner_url: str, tmp_path: Path) -> None:
    code, output, errors = await lorebus(
        "keys", "create", "--organization", ORGANIZATION, "--database-url", owner_url, home=tmp_path
    )

    assert (code, output) == (1, "")
    assert "is a superuser" in errors


async def test_topics_apply_makes_every_topic(
    bootstrap_servers: str, topic_prefix: str, tmp_path: Path
) -> None:
    code, _, _ = await lorebus(
        *("topics", "apply", "--bootstrap-servers", bootstrap_servers, "--prefix", topic_prefix),
        home=tmp_path,
    )

    assert code == 0
    assert {topic_prefix + "session.ended", topic_prefix + "memory.changed"} <= await topics_of(
        bootstrap_servers
    )


async def test_without_an_address_and_without_a_stack_the_command_says_what_to_do(tmp_path: Path) -> None:
    code, _, errors = await lorebus("migrate", home=tmp_path)

    assert code == 3
    assert errors == ("lorebus: no local stack is up here; start it with `lorebus up`, or give the address\n")


async def test_a_database_that_is_away_is_said_in_one_line(tmp_path: Path) -> None:
    code, _, errors = await lorebus(
        "migrate", "--database-url", "postgresql://nobody@127.0.0.1:1/none", home=tmp_path
    )

    assert code == 3
    assert errors.startswith("lorebus: ")
    assert len(errors.splitlines()) == 1


async def test_keys_are_made_for_their_scopes_listed_and_revoked(database_url: str, tmp_path: Path) -> None:
    where = ("--organization", ORGANIZATION, "--database-url", database_url)

    _, made, _ = await lorebus(
        *("keys", "create", "--name", "a reader", "--scope", "read", "--scope", "write", "--json", *where),
        home=tmp_path,
    )
    _, listed, _ = await lorebus("keys", "list", "--json", *where, home=tmp_path)
    key = json.loads(made)
    code, revoked, _ = await lorebus("keys", "revoke", key["key_id"], *where, home=tmp_path)
    _, lines, _ = await lorebus("keys", "list", *where, home=tmp_path)

    plain = key.pop("key")
    assert json.loads(listed) == {"keys": [key]}
    assert (key["name"], key["prefix"], key["scopes"]) == ("a reader", plain[:12], ["read", "write"])
    assert (code, revoked) == (0, f"revoked {key['key_id']}\n")
    head, line = lines.splitlines()
    assert head.split() == ["key_id", "prefix", "scopes", "created_at", "last_used_at", "revoked_at", "name"]
    assert line.split()[:4] == [key["key_id"], plain[:12], "read,write", key["created_at"]]
    assert line.endswith(" a reader")


async def test_a_key_that_is_not_there_is_not_revoked_and_the_command_says_so(
    database_url: str, tmp_path: Path
) -> None:
    code, _, errors = await lorebus(
        *("keys", "revoke", ORGANIZATION, "--organization", ORGANIZATION, "--database-url", database_url),
        home=tmp_path,
    )

    assert (code, errors) == (1, f"lorebus: the organization has no open key {ORGANIZATION}\n")
