"""The largest record that a topic takes and the emptiest can be set aside as well, with all that is said of them."""

from lorebus_contracts.topics import MAX_RECORD_BYTES, PRUNE_GROUP, PRUNE_REQUESTED
from tests.support.events import prune
from tests.support.memory import ended_run, known_scope
from tests.support.poison import MARKED_NAME, undecodable_names
from tests.support.running import running

OVERHEAD_BYTES = 200


async def test_poison_as_large_as_the_topic_takes_does_not_stop_what_is_behind_it(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    async with running(
        "prune", database_url=database_url, bootstrap_servers=bootstrap_servers, topics=topics
    ) as ground:
        scope = await known_scope(ground.database)
        largest = b"x" * (MAX_RECORD_BYTES - OVERHEAD_BYTES)
        await ground.wire.send_raw(PRUNE_REQUESTED.name, largest, partition=0)
        long_name = MARKED_NAME * 100_000
        with undecodable_names():
            await ground.wire.send_raw(PRUNE_REQUESTED.name, b"{}", headers=[(long_name, b"x")], partition=0)
        sound = prune(scope)
        await ground.wire.send(sound, partition=0)
        assert (await ended_run(ground.database, scope, sound.event_id)).state_name == "completed"
        letters = await ground.wire.dead_letters(PRUNE_REQUESTED, PRUNE_GROUP, count=2)
        assert sorted(len(letter.value) for letter in letters) == [2, MAX_RECORD_BYTES - OVERHEAD_BYTES]


async def test_a_record_without_key_and_value_does_not_stop_what_is_behind_it(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    async with running(
        "prune", database_url=database_url, bootstrap_servers=bootstrap_servers, topics=topics
    ) as ground:
        scope = await known_scope(ground.database)
        await ground.wire.send_raw(PRUNE_REQUESTED.name, None, partition=0)
        sound = prune(scope)
        await ground.wire.send(sound, partition=0)
        assert (await ended_run(ground.database, scope, sound.event_id)).state_name == "completed"
        (letter,) = await ground.wire.dead_letters(PRUNE_REQUESTED, PRUNE_GROUP, count=1)
        assert (letter.key, letter.value) == (None, b"")
        assert ("lorebus-no-value", b"true") in letter.headers
