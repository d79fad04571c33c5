"""Members that come and go while records flow: nothing is lost, and nothing counts twice."""

from lorebus_contracts.topics import SAVE_GROUP, SAVE_REQUESTED
from tests.support.events import entry, save
from tests.support.memory import counter_of, entries_of, known_scope, outputs_of
from tests.support.running import running


async def test_a_member_that_joins_and_one_that_leaves_in_the_middle_of_a_stream_double_nothing(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    async with running(
        "save", database_url=database_url, bootstrap_servers=bootstrap_servers, topics=topics
    ) as ground:
        scope = await known_scope(ground.database)
        events = [save(scope, entry(f"lesson {number % 10}", 0.5)) for number in range(600)]
        await ground.wire.send(*events[:200])
        async with running(
            "save", database_url=database_url, bootstrap_servers=bootstrap_servers, topics=topics
        ) as second:
            await ground.wire.send(*events[200:400])
            assert await ground.service.stop() == 0
            await ground.wire.send(*events[400:])
            outputs = await outputs_of(second.database, scope, [event.event_id for event in events])
            await second.wire.settled(SAVE_GROUP, SAVE_REQUESTED)
        assert sum(output["saved"] for output in outputs) == 10
        assert sum(output["reinforced"] for output in outputs) == 590
        kept = await entries_of(ground.database, scope)
        assert sum(one.reinforcement_count for one in kept) == 590
        assert await counter_of(ground.database, scope) == 10
        assert await ground.wire.dead_letters(SAVE_REQUESTED, SAVE_GROUP) == []
