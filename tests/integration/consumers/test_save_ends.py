"""The save consumer killed, and stopped while its database is away; and the prune that a save causes."""

from lorebus_contracts.topics import PRUNE_GROUP, PRUNE_REQUESTED, SAVE_GROUP, SAVE_REQUESTED
from tests.support.counted import waits
from tests.support.databases import database_away
from tests.support.events import entry, save
from tests.support.memory import counter_of, ended_run, entries_of, known_scope, outputs_of
from tests.support.running import kill_when_a_run_appears, running
from tests.support.waiting import eventually

SENTENCE = "Always confirm the return date before rebooking."


async def test_a_save_whose_consumer_is_killed_before_it_acknowledges_is_counted_once(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    async with running(
        "save", database_url=database_url, bootstrap_servers=bootstrap_servers, topics=topics
    ) as ground:
        scope = await known_scope(ground.database)
        batches = [[save(scope, SENTENCE) for _ in range(100)] for _ in range(2)]
        for batch in batches:
            await ground.wire.send(*batch)
            await kill_when_a_run_appears(ground, scope, batch[0].event_id)
            await ground.begin_again()
        run_ids = [event.event_id for batch in batches for event in batch]
        outputs = await outputs_of(ground.database, scope, run_ids)
        (kept,) = await entries_of(ground.database, scope)
        assert sum(output["saved"] for output in outputs) == 1
        assert sum(output["reinforced"] for output in outputs) == 199
        assert kept.reinforcement_count == 199
        assert await counter_of(ground.database, scope) == 1
        await ground.wire.settled(SAVE_GROUP, SAVE_REQUESTED)
        assert await ground.wire.dead_letters(SAVE_REQUESTED, SAVE_GROUP) == []


async def test_a_save_over_the_cap_has_its_agent_config_pruned_and_the_counter_stays_exact(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    async with running(
        "save", "prune", database_url=database_url, bootstrap_servers=bootstrap_servers, topics=topics
    ) as ground:
        scope = await known_scope(ground.database, max_entries=20)
        events = [save(scope, entry(f"lesson {number}", 0.3 + number / 100)) for number in range(50)]
        await ground.wire.send(*events)
        for event in events:
            await ended_run(ground.database, scope, event.event_id)

        async def at_its_cap() -> bool:
            return len(await entries_of(ground.database, scope)) == 20

        await eventually(at_its_cap, what="the config is pruned to its cap")
        await ground.wire.settled(PRUNE_GROUP, PRUNE_REQUESTED)
        kept = await entries_of(ground.database, scope)
        assert await counter_of(ground.database, scope) == len(kept) == 20
        assert max(one.importance for one in kept) == 0.79


async def test_while_the_database_is_away_saves_wait_and_a_stop_is_not_held_up(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    async with running(
        "save", database_url=database_url, bootstrap_servers=bootstrap_servers, topics=topics
    ) as ground:
        scope = await known_scope(ground.database)
        events = [save(scope, f"lesson {number}") for number in range(20)]
        async with database_away(database_url):
            await ground.wire.send(*events)
            await eventually(lambda: waits(ground.service.url), what="the consumer waits for the database")
            assert await ground.service.stop(seconds=15) == 0
        await ground.begin_again()
        for event in events:
            await ended_run(ground.database, scope, event.event_id)
        assert len(await entries_of(ground.database, scope)) == 20
        await ground.wire.settled(SAVE_GROUP, SAVE_REQUESTED)
        assert await ground.wire.dead_letters(SAVE_REQUESTED, SAVE_GROUP) == []
