"""`lorebus topics` and `lorebus lag` against a real broker."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from lorebus_contracts.topics import SAVE_GROUP, SAVE_REQUESTED
from tests.support.commands import Shell, shell
from tests.support.events import new_scope, save
from tests.support.wire import Wire


@pytest.fixture
def asking(bootstrap_servers: str, topic_prefix: str, tmp_path: Path) -> Shell:
    return shell(tmp_path, bootstrap_servers=bootstrap_servers, prefix=topic_prefix)


@pytest.fixture
async def admin(bootstrap_servers: str) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await client.start()
    yield client
    await client.close()


async def test_a_check_names_what_is_missing_and_finds_nothing_once_it_is_made(asking: Shell) -> None:
    missing = await asking.lorebus("topics", "check", "--json")
    made = await asking.lorebus("topics", "apply")
    sound = await asking.lorebus("topics", "check", "--json")

    assert (missing.code, {one["kind"] for one in missing.json["faults"]}) == (1, {"missing"})
    assert (made.code, made.output) == (0, "the topics are there, and as they should be\n")
    assert (sound.code, sound.json) == (0, {"ok": True, "faults": []})


async def test_a_check_names_too_few_partitions_and_copies_and_another_retention(
    asking: Shell, admin: AIOKafkaAdminClient, topic_prefix: str
) -> None:
    topic = topic_prefix + "session.rated"
    await admin.create_topics([NewTopic(topic, 1, 1, topic_configs={"retention.ms": "60000"})])
    await asking.lorebus("topics", "apply")

    answer = await asking.lorebus("topics", "check", "--replication-factor", "3", "--json")

    assert answer.code == 1
    assert [
        (one["kind"], one["wanted"], one["found"])
        for one in answer.json["faults"]
        if one["topic"] == topic and one["name"] != "max.message.bytes"
    ] == [
        ("too_few_partitions", "6", "1"),
        ("replication_factor", "3", "1"),
        ("setting", "604800000", "60000"),
    ]


async def test_a_broker_that_is_away_is_exit_code_3_and_one_line(tmp_path: Path) -> None:
    answer = await shell(tmp_path, bootstrap_servers="127.0.0.1:9").lorebus("topics", "check")

    assert (answer.code, answer.output) == (3, "")
    assert answer.errors == "lorebus: the broker at 127.0.0.1:9: KafkaConnectionError\n"


async def test_lag_tells_what_waits_and_for_how_long(
    asking: Shell, bootstrap_servers: str, topics: str
) -> None:
    async with Wire(bootstrap_servers, topics) as wire:
        await wire.send(*(save(new_scope(), "a lesson") for _ in range(3)), partition=1)

        answer = await asking.lorebus("lag", "--max", "2", "--json")
        whole = await asking.lorebus("lag", "--max", "3")
        await wire.forget_offsets(SAVE_GROUP, SAVE_REQUESTED)
        known = await asking.lorebus("lag", "--json")

    of_saves = [one for one in answer.json["partitions"] if one["group"] == SAVE_GROUP]
    assert (answer.code, answer.json["over"]) == (1, [SAVE_GROUP])
    assert answer.json["groups"] == {
        "lorebus.distill": 0,
        "lorebus.labels": 0,
        "lorebus.save": 3,
        "lorebus.prune": 0,
    }
    assert [(one["partition"], one["committed"], one["end"], one["lag"]) for one in of_saves] == [
        (0, None, 0, 0),
        (1, None, 3, 3),
    ]
    assert (of_saves[0]["oldest_at"], of_saves[0]["oldest_age_seconds"]) == (None, None)
    assert 0 <= of_saves[1]["oldest_age_seconds"] < 600
    assert whole.code == 0
    assert [one["committed"] for one in known.json["partitions"] if one["group"] == SAVE_GROUP] == [0, 0]
