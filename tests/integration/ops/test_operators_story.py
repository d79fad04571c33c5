"""An operator's night: a dead letter found, understood, mended and replayed with the commands alone.

Somebody took the services' rights to a table: the consumer's statements fail, and what it reads becomes dead letters.
"""

from pathlib import Path

from lorebus_contracts.topics import SAVE_GROUP, SAVE_REQUESTED
from tests.support.commands import shell
from tests.support.databases import ArrangedDatabase, execute
from tests.support.events import save
from tests.support.memory import entries_of, known_scope
from tests.support.running import running
from tests.support.waiting import eventually


async def test_a_dead_letter_is_found_understood_mended_and_replayed_with_these_commands_alone(
    database_url: str, bootstrap_servers: str, topics: str, tmp_path: Path
) -> None:
    await execute(database_url, "REVOKE ALL ON lorebus.memories FROM lorebus_app")
    desk = shell(tmp_path, database_url=database_url, bootstrap_servers=bootstrap_servers, prefix=topics)
    database = ArrangedDatabase(database_url)
    scope = await known_scope(database)
    event = save(scope, "ask before you change a seat")
    async with running(
        "save", database_url=database_url, bootstrap_servers=bootstrap_servers, topics=topics
    ) as at_work:
        await at_work.wire.send(event)
        await at_work.wire.dead_letters(SAVE_REQUESTED, SAVE_GROUP, count=1)

        # Found: a letter waits.
        (letter,) = (await desk.lorebus("dlq", "list", "--json")).json["letters"]
        # Understood: PostgreSQL refused, and the doctor says why.
        shown = await desk.lorebus("dlq", "show", letter["letter"])
        examined = await desk.lorebus("doctor", "--partitions", "2", "--json")
        # Mended.
        (remedy,) = [one["remedy"] for one in examined.json["findings"] if one["cause"] == "denied"]
        await execute(database_url, remedy.partition(";")[0])
        healthy = await desk.lorebus("doctor", "--partitions", "2", "--json")
        # Replayed.
        replayed = await desk.lorebus("dlq", "replay", letter["letter"], "--yes")

        async def done() -> bool:
            answer = await desk.lorebus("runs", "show", str(event.event_id), "--json")
            return answer.code == 0 and answer.json["state_name"] == "completed"

        await eventually(done, what="the save is done")
        lag = await desk.lorebus("lag", "--max", "0", "--json")

    (entry,) = await entries_of(database, scope)
    await database.dispose()
    assert letter["error_type"] == "PermanentError"
    assert "`lorebus doctor`" in shown.output
    assert remedy.startswith("GRANT SELECT, INSERT, UPDATE, DELETE ON lorebus.memories TO lorebus_app;")
    assert (healthy.code, replayed.code, lag.code) == (0, 0, 0)
    assert (entry.text, entry.reinforcement_count) == ("ask before you change a seat", 0)
    assert (await desk.lorebus("dlq", "list")).output == "no dead letters wait\n"
