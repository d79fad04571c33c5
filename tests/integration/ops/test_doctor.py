"""`lorebus doctor` names the cause of each broken set-up, with the real thing broken."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lorebus_ops.checkup.database import check_database
from lorebus_ops.ports import free_port
from lorebus_store.migrate import upgrade
from tests.support.backends import embedded_broker
from tests.support.commands import Answer, Shell, shell
from tests.support.databases import execute

SECRET = "a-secret-of-the-doctors-tests-of-more-than-32-characters"


@dataclass(frozen=True, slots=True)
class Patient:
    """A set-up that works: its shell, and where its stores are."""

    shell: Shell
    database_url: str

    async def examined(self, *words: str, **variables: str) -> Answer:
        return await self.shell.lorebus(
            "doctor", "--json", "--partitions", "2", *words, LOREBUS_TOKEN_SECRETS=SECRET, **variables
        )


@pytest.fixture
def patient(database_url: str, bootstrap_servers: str, topics: str, tmp_path: Path) -> Patient:
    there = shell(tmp_path, database_url=database_url, bootstrap_servers=bootstrap_servers, prefix=topics)
    return Patient(there, database_url)


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port on which a program listens that is none of ours."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.settimeout(0)
        yield listening.getsockname()[1]


def causes(answer: Answer) -> list[tuple[str, str]]:
    """What is wrong, as (check, cause)."""
    return [
        (one["check"], one["cause"])
        for one in answer.json["findings"]
        if one["health"] in {"wrong", "unreachable"}
    ]


def told(answer: Answer, check: str) -> str:
    """What is said of a check."""
    return "; ".join(one["says"] for one in answer.json["findings"] if one["check"] == check)


async def test_of_a_sound_set_up_nothing_is_wrong(patient: Patient) -> None:
    answer = await patient.examined()

    assert (answer.code, causes(answer), answer.json["ok"]) == (0, [], True)
    assert {one["check"] for one in answer.json["findings"]} == {
        *("settings", "database", "role", "migrations", "clock", "broker", "topics", "ports"),
    }


async def test_a_wrong_password_is_named_and_not_shown(patient: Patient) -> None:
    parts = urlsplit(patient.database_url)
    url = parts._replace(netloc=f"{parts.username}:wrong-one@{parts.hostname}:{parts.port}").geturl()

    answer = await patient.examined(LOREBUS_DATABASE_URL=url)

    assert (answer.code, causes(answer)) == (3, [("database", "wrong_password")])
    assert "wrong-one" not in answer.output


async def test_a_database_that_does_not_exist_is_named(patient: Patient) -> None:
    url = urlsplit(patient.database_url)._replace(path="/nowhere").geturl()

    answer = await patient.examined(LOREBUS_DATABASE_URL=url)

    assert (answer.code, causes(answer)) == (3, [("database", "no_database")])
    assert "nowhere" in told(answer, "database")


async def test_a_database_that_is_away_is_named_with_its_address(patient: Patient) -> None:
    port = free_port()

    answer = await patient.examined(LOREBUS_DATABASE_URL=f"postgresql://me:secret@127.0.0.1:{port}/lorebus")

    assert (answer.code, causes(answer)) == (3, [("database", "away")])
    assert told(answer, "database") == f"PostgreSQL at 127.0.0.1:{port} does not answer"


async def test_a_broker_that_is_away_is_named_with_its_address(patient: Patient) -> None:
    port = free_port()

    answer = await patient.examined(LOREBUS_BOOTSTRAP_SERVERS=f"127.0.0.1:{port}")

    assert (answer.code, causes(answer)) == (3, [("broker", "away")])
    assert f"127.0.0.1:{port}" in told(answer, "broker")


async def test_a_broker_that_sends_its_clients_to_where_nobody_answers_is_named_with_both_addresses(
    patient: Patient,
) -> None:
    port = free_port()
    with embedded_broker(advertised=f"tcp://127.0.0.1:{port}") as servers:
        answer = await patient.examined(LOREBUS_BOOTSTRAP_SERVERS=servers)

    finding = next(one for one in answer.json["findings"] if one["check"] == "broker")
    assert (answer.code, causes(answer)) == (3, [("broker", "advertised_address")])
    assert finding["says"] == (
        f"the broker at {servers} sends its clients to 127.0.0.1:{port}, where nobody answers"
    )
    assert finding["remedy"] == "set its advertised.listeners to addresses that can be reached from here"


async def test_missing_topics_are_named(patient: Patient) -> None:
    answer = await patient.examined(LOREBUS_TOPIC_PREFIX="nobody-made-these.")

    assert (answer.code, causes(answer)) == (1, [("topics", "missing")])
    assert "nobody-made-these.session.ended" in told(answer, "topics")


async def test_topics_with_too_few_partitions_are_named_with_both_numbers(patient: Patient) -> None:
    answer = await patient.examined("--partitions", "7")

    assert (answer.code, causes(answer)) == (1, [("topics", "too_few_partitions")])
    assert told(answer, "topics").startswith("partitions should be 7 and is 2: ")


async def test_tables_that_are_behind_the_code_are_named(patient: Patient, empty_database_url: str) -> None:
    await upgrade(empty_database_url, "0002")

    answer = await patient.examined(LOREBUS_DATABASE_URL=empty_database_url)

    assert (answer.code, causes(answer)) == (1, [("role", "unheld"), ("migrations", "behind")])


async def test_a_database_without_tables_is_named(patient: Patient, empty_database_url: str) -> None:
    answer = await patient.examined(LOREBUS_DATABASE_URL=empty_database_url)

    assert (answer.code, causes(answer)) == (1, [("role", "unheld"), ("migrations", "none")])


async def test_tables_that_are_newer_than_the_code_are_named(patient: Patient) -> None:
    await execute(patient.database_url, "UPDATE lorebus.alembic_version SET version_num = '9999'")

    answer = await patient.examined()

    assert (answer.code, causes(answer)) == (1, [("migrations", "ahead")])


async def test_a_role_that_may_not_read_the_tables_is_named(patient: Patient) -> None:
    parts = urlsplit(patient.database_url)
    role = f"r{parts.path[-12:]}"
    await execute(patient.database_url, f"CREATE ROLE {role} LOGIN PASSWORD 'of-its-own'")
    await execute(patient.database_url, f"GRANT USAGE ON SCHEMA lorebus TO {role}")
    await execute(patient.database_url, f"GRANT SELECT ON lorebus.alembic_version TO {role}")
    try:
        url = parts._replace(netloc=f"{role}:of-its-own@{parts.hostname}:{parts.port}").geturl()

        answer = await patient.examined(LOREBUS_DATABASE_URL=url)
    finally:
        await execute(patient.database_url, f"DROP OWNED BY {role}")
        await execute(patient.database_url, f"DROP ROLE {role}")

    assert (answer.code, causes(answer)) == (1, [("role", "denied")])
    assert "memories" in told(answer, "role")


async def test_a_login_that_row_level_security_would_not_hold_is_named(
    patient: Patient, owner_url: str
) -> None:
    answer = await patient.examined(LOREBUS_DATABASE_URL=owner_url)

    assert (answer.code, causes(answer)) == (1, [("role", "unheld")])
    assert "is a superuser" in told(answer, "role")


async def test_a_port_that_another_program_has_is_named(patient: Patient, taken_port: int) -> None:
    answer = await patient.examined(LOREBUS_HEALTH_PORT=str(taken_port))

    assert (answer.code, causes(answer)) == (1, [("ports", "taken")])
    assert told(answer, "ports") == f"127.0.0.1:{taken_port} (LOREBUS_HEALTH_PORT) is another program's"


@pytest.mark.parametrize(("seconds", "side"), [(90, "ahead of"), (-90, "behind")])
async def test_a_clock_that_is_off_is_named(database_url: str, seconds: int, side: str) -> None:
    found = await check_database(database_url, clock=lambda: datetime.now(UTC) + timedelta(seconds=seconds))

    clock = next(one for one in found if one.check == "clock")
    assert (clock.health, clock.cause) == ("wrong", "off")
    assert side in clock.says


async def test_a_misspelled_setting_is_named_with_the_one_that_was_meant(patient: Patient) -> None:
    answer = await patient.examined(LOREBUS_BOOTSTRAP_SERVER="127.0.0.1:9092")

    finding = answer.json["findings"][0]
    assert (answer.code, causes(answer)) == (1, [("settings", "unknown_variable")])
    assert finding["remedy"] == "write LOREBUS_BOOTSTRAP_SERVERS"


async def test_a_secret_that_is_too_short_is_named_and_not_shown(patient: Patient) -> None:
    answer = await patient.shell.lorebus(
        *("doctor", "--json", "--partitions", "2"), LOREBUS_TOKEN_SECRETS="swordfish"
    )

    assert (answer.code, causes(answer)) == (1, [("settings", "bad_value")])
    assert "LOREBUS_TOKEN_SECRETS" in told(answer, "settings")
    assert "swordfish" not in answer.output


async def test_an_address_that_is_none_is_named_and_not_shown(patient: Patient) -> None:
    answer = await patient.examined(LOREBUS_DATABASE_URL="mysql://me:swordfish@127.0.0.1/lorebus")

    assert (answer.code, causes(answer)) == (1, [("settings", "bad_value"), ("database", "bad_url")])
    assert "swordfish" not in answer.output


async def test_for_people_each_thing_is_a_line_with_what_to_do_below_it(patient: Patient) -> None:
    answer = await patient.shell.lorebus("doctor", "--partitions", "7", LOREBUS_TOKEN_SECRETS=SECRET)

    assert answer.code == 1
    assert "\nWRONG  topics      partitions should be 7 and is 2: " in answer.output
    assert "-> make more: `lorebus topics apply --alter`" in answer.output
