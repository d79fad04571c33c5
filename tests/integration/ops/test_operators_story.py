"""An operator's night: a dead letter found, understood, mended and replayed with the commands alone.

New code was rolled out before its migrations: the consumer's statements fail, and what it reads becomes dead letters.
"""

from pathlib import Path

from lorebus_contracts.topics import SAVE_GROUP, SAVE_REQUESTED
from lorebus_store.database import Database
from lorebus_store.migrate import upgrade
from tests.support.commands import shell
from tests.support.events import save
from tests.support.memory import entries_of, known_scope
from tests.support.running import running
from tests.support.waiting import eventually


async def test_a_dead_letter_is_found_understood_mended_and_replayed_with_these_commands_alone(
    empty_database_url: str, bootstrap_servers: str, topics: str, tmp_path: Path
) -> None:
    await upgrade(empty_database_url, "0003")
    desk = shell(
        tmp_path, database_url=empty_database_url, bootstrap_servers=bootstrap_servers, prefix=topics
    )
    database = Database(empty_database_url, application_name="lorebus-tests")
    scope = await known_scope(database)
    event = save(scope, "ask before you change a seat")
    async with running(
        "save", database_url=empty_database_url, bootstrap_servers=bootstrap_servers, topics=topics
    ) as at_work:
        await at_work.wire.send(event)
        await at_work.wire.dead_letters(SAVE_REQUESTED, SAVE_GROUP, count=1)

        # Found: a letter waits.
        (letter,) = (await desk.lorebus("dlq", "list", "--json")).json["letters"]
        # Understood: PostgreSQL refused, and the doctor says why.
        shown = await desk.lorebus("dlq", "show", letter["letter"])
        examined = await desk.lorebus("doctor", "--partitions", "2", "--json")
        # Mended.
        migrated = await desk.lorebus("migrate", "--json")
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
    assert [one["remedy"] for one in examined.json["findings"] if one["cause"] == "behind"] == [
        "run `lorebus migrate`; services may go on meanwhile"
    ]
    assert (migrated.code, healthy.code, replayed.code, lag.code) == (0, 0, 0, 0)
    assert (entry.text, entry.reinforcement_count) == ("ask before you change a seat", 0)
    assert (await desk.lorebus("dlq", "list")).output == "no dead letters wait\n"
