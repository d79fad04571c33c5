"""A run of records that nobody can handle stops the consumer, and costs none of them."""

from lorebus_contracts.topics import PRUNE_GROUP, PRUNE_REQUESTED
from tests.support.counted import health, is_alive, is_ready
from tests.support.events import prune
from tests.support.memory import ended_run, filled, known_scope
from tests.support.running import running
from tests.support.waiting import eventually


async def test_more_dead_letters_in_a_row_than_the_limit_stop_the_consumer_until_somebody_restarts_it(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    async with running(
        "prune",
        database_url=database_url,
        bootstrap_servers=bootstrap_servers,
        topics=topics,
        extra={"LOREBUS_DEAD_LETTER_LIMIT": "3"},
    ) as ground:
        scope = await known_scope(ground.database)
        await filled(ground.database, scope, 5)
        for number in range(5):
            await ground.wire.send_raw(PRUNE_REQUESTED.name, b"poison %d" % number, partition=0)
        sound = prune(scope, 2)
        await ground.wire.send(sound, partition=0)

        async def halted() -> object:
            return (await health(ground.service.url))["halted"]

        told = await eventually(halted, what="the consumer halts")
        assert str(told).startswith("3 records in a row could not be handled")
        assert not await is_ready(ground.service.url)
        assert await is_alive(ground.service.url)
        letters = await ground.wire.dead_letters(PRUNE_REQUESTED, PRUNE_GROUP)
        assert {letter.value for letter in letters} == {b"poison 0", b"poison 1", b"poison 2"}

        async def three_are_acknowledged() -> bool:
            return 3 in (await ground.wire.committed(PRUNE_GROUP, PRUNE_REQUESTED)).values()

        await eventually(three_are_acknowledged, what="what was set aside is acknowledged")
        assert await ground.service.stop() == 0
        await ground.begin_again()
        run = await ended_run(ground.database, scope, sound.event_id)
        assert run.state_data["deleted"] == 3
        await ground.wire.settled(PRUNE_GROUP, PRUNE_REQUESTED)
        assert len(await ground.wire.dead_letters(PRUNE_REQUESTED, PRUNE_GROUP)) == 5
