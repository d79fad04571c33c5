"""Export and import: a file holds all that is kept of entries, adds it wholly, and a second time adds nothing."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from lorebus_kit.keys import create_key
from lorebus_recall_labeller.handlers import on_session_events
from lorebus_save.handlers import on_save_requested
from tests.support.databases import database_away
from tests.support.events import Scope, end_user, ended, entry, rated, recalled, save
from tests.support.gateways import Asking

EXPORT = "/api/app/agents/memory/export"
IMPORT = "/api/app/agents/memory/import"
JSON_LINES = {"content-type": "application/x-ndjson"}
NOON = "2026-03-01T12:00:00Z"


async def export(gateway: Asking, config: UUID, *, key: str | None = None) -> bytes:
    answer = await gateway.client.get(
        EXPORT,
        params={"agent_config_uuid": str(config)},
        headers={"authorization": f"Bearer {key or gateway.api_key}"},
    )
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
    return answer.content


async def send(
    gateway: Asking, config: UUID, file: bytes, *, key: str | None = None, **headers: str
) -> httpx.Response:
    return await gateway.ask(
        "POST",
        IMPORT,
        params={"agent_config_uuid": config},
        content=file,
        key=key,
        headers=JSON_LINES | {name.replace("_", "-"): value for name, value in headers.items()},
    )


async def imported(gateway: Asking, config: UUID, file: bytes, *, key: str | None = None) -> dict[str, int]:
    answer = await send(gateway, config, file, key=key)
    assert answer.status_code == 200, answer.text
    told: dict[str, int] = answer.json()
    return told


def lines_of(file: bytes) -> list[dict[str, Any]]:
    assert file.endswith(b"\n")
    return [json.loads(line) for line in file.splitlines()]


def file_of(*entries: Mapping[str, object], count: int | None = None) -> bytes:
    """A file of entries of which only the text must be said."""
    ordinary = {"principal_ref": None, "importance": 0.5, "created_at": NOON, "updated_at": NOON}
    told: list[Mapping[str, object]] = [
        {"format": "lorebus.memory", "version": 1},
        *(ordinary | dict(one) for one in entries),
        {"end": True, "entries": len(entries) if count is None else count},
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in told)


async def consume(gateway: Asking, handler: Any, *events: Any) -> None:  # noqa: ANN401 - Any consumer's.
    async with gateway.database.begin() as connection:
        await handler(connection, list(events))


async def count(gateway: Asking, table: str) -> int:
    (row,) = await gateway.rows(f"SELECT count(*) FROM lorebus.{table}")  # noqa: S608 - A name of ours.
    return int(row["count"])


async def remembered(gateway: Asking, config: UUID) -> None:
    """Entries of several people with every count there is."""
    scope = Scope(gateway.organization_uuid, config)
    events = [
        save(scope, entry("Likes aisle seats.", 0.7), "Ends with a newline\n", caller=end_user("bob")),
        save(scope, "likes aisle seats", caller=end_user("bob")),
        save(scope, "Likes aisle seats.", caller=end_user("Bob")),
        save(scope, entry("Everybody's \u2028 \U0001f600 line", 1.0), "Another one"),
    ]
    for event in events:
        await consume(gateway, on_save_requested, event)
    rows = await gateway.rows("SELECT id FROM lorebus.memories WHERE principal_ref = 'bob' ORDER BY id")
    ids = [row["id"] for row in rows]
    for outcome, handed_out in (("success", ids), ("success", ids[:1]), ("failed", ids[:1]), ("left", ids)):
        session = uuid4()
        recall = recalled(scope, handed_out, session_uuid=session, caller=end_user("bob"))
        end = ended(scope, session_uuid=session, outcome=outcome, caller=end_user("bob"))
        await consume(gateway, on_session_events, recall, end)
    rated_session = uuid4()
    await consume(
        gateway,
        on_session_events,
        recalled(scope, ids[1:], session_uuid=rated_session, caller=end_user("bob")),
        ended(scope, session_uuid=rated_session, outcome="success", caller=end_user("bob")),
        rated(scope, 0.2, session_uuid=rated_session),
    )


async def test_a_file_holds_every_entry_with_its_counts_and_labels(gateway: Asking) -> None:
    config = await gateway.config()
    await remembered(gateway, config)

    header, *entries, end = lines_of(await export(gateway, config))

    assert header == {"format": "lorebus.memory", "version": 1}
    assert end == {"end": True, "entries": 5}
    told = [
        (
            line["principal_ref"],
            line["text"],
            line["importance"],
            line["reinforcement_count"],
            line["access_count"],
            line["success_count"],
            line["failed_count"],
        )
        for line in entries
    ]
    assert told == [
        (None, "Everybody's \u2028 \U0001f600 line", 1.0, 0, 0, 0, 0),
        (None, "Another one", 0.5, 0, 0, 0, 0),
        ("Bob", "Likes aisle seats.", 0.5, 0, 0, 0, 0),
        ("bob", "Likes aisle seats.", 0.7, 1, 4, 2, 1),
        ("bob", "Ends with a newline\n", 0.5, 0, 3, 1, 1),
    ]
    assert {line["origin"] for line in entries} == {"runner"}
    assert entries[3]["last_accessed_at"] > entries[3]["updated_at"] > entries[3]["created_at"]


async def test_an_export_of_an_import_is_the_same_file(gateway: Asking) -> None:
    here, there = await gateway.config(), await gateway.config()
    await remembered(gateway, here)
    file = await export(gateway, here)

    answer = await imported(gateway, there, file)

    assert answer == {"entries": 5, "imported": 5, "present": 0, "erased": 0, "skipped": 0}
    assert await export(gateway, there) == file
    assert await export(gateway, here) == file


async def test_memory_moves_to_another_organization_with_that_ones_own_key(gateway: Asking) -> None:
    config, other = await gateway.config(), uuid4()
    await remembered(gateway, config)
    file = await export(gateway, config)
    other_key = await create_key(gateway.database, other, name="test")
    other_config = uuid4()
    await gateway.ask("PUT", f"/api/app/agents/configs/{other_config}", key=other_key, json={})

    refused = await send(gateway, other_config, file)
    await imported(gateway, other_config, file, key=other_key)

    assert refused.status_code == 404
    assert await export(gateway, other_config, key=other_key) == file
    rows = await gateway.rows("SELECT organization_uuid, count(*) FROM lorebus.memories GROUP BY 1")
    assert {row["organization_uuid"]: row["count"] for row in rows} == {
        gateway.organization_uuid: 5,
        other: 5,
    }


async def test_a_second_import_adds_neither_rows_nor_reinforcement(gateway: Asking) -> None:
    here, there = await gateway.config(), await gateway.config()
    await remembered(gateway, here)
    file = await export(gateway, here)
    await imported(gateway, there, file)

    again = await imported(gateway, there, file)

    assert again == {"entries": 5, "imported": 0, "present": 5, "erased": 0, "skipped": 0}
    assert await export(gateway, there) == file
    rows = await gateway.rows("SELECT entry_count FROM lorebus.agent_configs")
    assert [row["entry_count"] for row in rows] == [5, 5]


async def test_an_entry_that_is_there_stays_as_it_was(gateway: Asking) -> None:
    config = await gateway.config()
    await gateway.remember(config, "Known already", importance=0.3)

    answer = await imported(
        gateway,
        config,
        file_of({"text": "known already.", "importance": 0.9, "reinforcement_count": 7}, {"text": "new"}),
    )

    assert (answer["imported"], answer["present"]) == (1, 1)
    rows = await gateway.rows(
        "SELECT text, importance, reinforcement_count FROM lorebus.memories ORDER BY text"
    )
    assert [tuple(row.values()) for row in rows] == [("Known already", 0.3, 0), ("new", 0.5, 0)]


async def test_a_text_that_stands_in_a_file_twice_is_taken_once(gateway: Asking) -> None:
    config = await gateway.config()

    answer = await imported(
        gateway, config, file_of({"text": "Twice", "importance": 0.4}, {"text": "twice.", "importance": 0.8})
    )

    assert (answer["imported"], answer["present"]) == (1, 1)
    (row,) = await gateway.rows("SELECT text, importance FROM lorebus.memories")
    assert tuple(row.values()) == ("Twice", 0.4)


async def test_a_file_of_many_pages_keeps_its_order(gateway: Asking) -> None:
    here, there = await gateway.config(), await gateway.config()
    at = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    # Many of one time, so that only their ids tell them apart, and many people with few entries each.
    entries = [
        {
            "text": f"entry {number}",
            "principal_ref": None if number < 450 else f"person {number % 90:02}",
            "created_at": (at + timedelta(seconds=number // 100)).isoformat(),
            "state": "quarantined" if number % 10 == 0 else "active",
            "quarantine_reason": "a reason" if number % 10 == 0 else None,
        }
        for number in range(900)
    ]
    await imported(gateway, here, file_of(*entries))
    file = await export(gateway, here)

    await imported(gateway, there, file)

    assert await export(gateway, there) == file
    told = lines_of(file)[1:-1]
    order = [
        (line["state"] == "active", line["principal_ref"] or "", int(line["text"].split()[1]))
        for line in told
    ]
    assert order == sorted(order)
    assert len({line["text"] for line in told}) == 900


async def test_what_is_held_back_stays_held_and_is_not_counted(gateway: Asking) -> None:
    config = await gateway.config()

    answer = await imported(
        gateway,
        config,
        file_of(
            {"text": "held", "state": "quarantined", "quarantine_reason": "a reason"}, {"text": "memory"}
        ),
    )

    assert answer["imported"] == 2
    listed = await gateway.ask("GET", "/api/app/agents/memory", params={"agent_config_uuid": config})
    assert [item["text"] for item in listed.json()["items"]] == ["memory"]
    assert listed.json()["total"] == 1


async def test_labels_that_come_later_are_added_to_those_that_were_moved(gateway: Asking) -> None:
    config = await gateway.config()
    await imported(gateway, config, file_of({"text": "moved", "success_count": 3, "failed_count": 1}))
    (row,) = await gateway.rows("SELECT id FROM lorebus.memories")
    session, scope = uuid4(), Scope(gateway.organization_uuid, config)
    await consume(
        gateway,
        on_session_events,
        recalled(scope, [row["id"]], session_uuid=session),
        ended(scope, session_uuid=session, outcome="failed"),
    )

    (line,) = lines_of(await export(gateway, config))[1:-1]

    assert (line["success_count"], line["failed_count"]) == (3, 2)


async def test_an_import_recalls_at_once(gateway: Asking) -> None:
    config = await gateway.config(memory_strategy="pack", memory_pack_reach="all")
    await imported(gateway, config, file_of({"text": "Kettles whistle when water boils."}))
    session = await gateway.session(config)

    answer = await gateway.load(session, cue="when does the kettle whistle", explain=True)

    (handed_out,) = answer.json()["explanation"]["entries"]
    assert handed_out["relevance"] > 0


async def test_an_import_does_not_bring_back_what_was_erased(gateway: Asking) -> None:
    config, session = await gateway.config(), uuid4()
    await gateway.ask("POST", "/api/app/agents/memory/erase", json={"principal_ref": "bob"})
    await gateway.ask("POST", "/api/app/agents/memory/erase", json={"session_uuid": str(session)})
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()

    answer = await imported(
        gateway,
        config,
        file_of(
            {"text": "of bob before", "principal_ref": "bob"},
            {"text": "of bob after", "principal_ref": "bob", "created_at": later},
            {"text": "of the session", "session_uuid": str(session), "created_at": later},
            {"text": "of alice", "principal_ref": "alice"},
        ),
    )

    assert answer == {"entries": 4, "imported": 2, "present": 0, "erased": 2, "skipped": 0}
    rows = await gateway.rows("SELECT text FROM lorebus.memories ORDER BY text")
    assert [row["text"] for row in rows] == ["of alice", "of bob after"]


async def test_what_no_save_would_keep_is_skipped(gateway: Asking) -> None:
    config = await gateway.config()

    answer = await imported(
        gateway,
        config,
        file_of({"text": "unimportant", "importance": 0.05}, {"text": " .,; "}, {"text": "kept"}),
    )

    assert (answer["imported"], answer["skipped"]) == (1, 2)


async def test_an_import_over_the_cap_asks_for_a_prune_and_tells_of_what_is_new(gateway: Asking) -> None:
    config = await gateway.config(memory_max_entries=1)

    await imported(gateway, config, file_of({"text": "one"}, {"text": "two"}))

    rows = await gateway.rows("SELECT topic, payload FROM lorebus.outbox ORDER BY id")
    assert [row["topic"] for row in rows] == ["memory.changed", "memory.prune-requested"]
    told = json.loads(rows[0]["payload"])
    assert (told["kind"], told["count"], told["agent_config_uuid"]) == ("saved", 2, str(config))


HEADER = b'{"format": "lorebus.memory", "version": 1}\n'
END = b'{"end": true, "entries": 0}\n'
ENTRY = (
    b'{"principal_ref": null, "text": "a", "importance": 0.5, "created_at": "%s", "updated_at": "%s"}\n'
    % (
        NOON.encode(),
        NOON.encode(),
    )
)


@pytest.mark.parametrize(
    ("file", "paths"),
    [
        (b"", [""]),
        (HEADER, [""]),
        (HEADER + ENTRY, [""]),
        (HEADER + ENTRY + END, ["line 3.entries"]),
        (HEADER + END + ENTRY, ["line 3"]),
        (HEADER + b"\n" + END, ["line 2"]),
        (END, ["line 1.format"]),
        (b'{"format": "lorebus.memory", "version": 2}\n' + END, ["line 1.version"]),
        (HEADER + b"{}\n" + b'{"end": true, "entries": 1}\n', ["line 2.principal_ref"]),
        (HEADER + b"nonsense\n" + b'{"end": true, "entries": 1}\n', ["line 2"]),
        (HEADER + b"\xff\n" + b'{"end": true, "entries": 1}\n', ["line 2"]),
        (HEADER + b"[" * 100_000 + b"\n", ["line 2", ""]),
        (b"\x1f\x8b\x08\x00" + b"\x00" * 20, ["line 1", ""]),
    ],
)
async def test_a_file_that_is_not_sound_is_refused_with_its_lines(
    gateway: Asking, file: bytes, paths: Sequence[str]
) -> None:
    config = await gateway.config()

    answer = await send(gateway, config, file)

    assert answer.status_code == 422
    told = [fault["path"] for fault in answer.json()["faults"]]
    assert told[: len(paths)] == list(paths)
    assert await count(gateway, "memories") == 0


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"importance": 1.5}, "line 3.importance"),
        ({"importance": True}, "line 3.importance"),
        ({"text": "x" * 10_001}, "line 3.text"),
        ({"principal_ref": ""}, "line 3.principal_ref"),
        ({"principal_ref": "a\u0000"}, "line 3.principal_ref"),
        ({"reinforcement_count": -1}, "line 3.reinforcement_count"),
        ({"access_count": 2**63}, "line 3.access_count"),
        ({"created_at": "1700000000"}, "line 3.created_at"),
        ({"state": "gone"}, "line 3.state"),
        ({"state": "quarantined"}, "line 3"),
        ({"origin": "nowhere"}, "line 3.origin"),
        ({"organization_uuid": "00000000-0000-4000-8000-000000000001"}, "line 3.organization_uuid"),
        ({"id": "00000000-0000-4000-8000-000000000001"}, "line 3.id"),
    ],
)
async def test_one_bad_line_keeps_every_line_out(
    gateway: Asking, wrong: Mapping[str, object], path: str
) -> None:
    config = await gateway.config()

    answer = await send(
        gateway, config, file_of({"text": "good"}, {"text": "bad"} | dict(wrong), {"text": "too"})
    )

    assert answer.status_code == 422
    assert [fault["path"] for fault in answer.json()["faults"]] == [path]
    assert await count(gateway, "memories") == 0


async def test_no_more_than_twenty_faults_are_told(gateway: Asking) -> None:
    answer = await send(gateway, await gateway.config(), file_of(*[{"text": 1}] * 1_000))

    assert [fault["path"] for fault in answer.json()["faults"]] == [f"line {n}.text" for n in range(2, 22)]


async def test_a_text_is_cleaned_as_a_save_cleans_it(gateway: Asking) -> None:
    config = await gateway.config()
    file = file_of({"text": "PLACE"}).replace(b"PLACE", b"nul\\u0000 half\\ud800 e\\u0301")

    await imported(gateway, config, file)

    (row,) = await gateway.rows("SELECT text FROM lorebus.memories")
    assert row["text"] == "nul half\ufffd \u00e9"


async def test_a_file_may_be_longer_than_a_body_and_come_in_pieces(gateway: Asking) -> None:
    config = await gateway.config()
    file = file_of(*({"text": f"{number} " + "x" * 9_000} for number in range(300)))
    assert len(file) > 2 * 1_048_576

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(file), 100_000):
            yield file[start : start + 100_000]

    answer = await gateway.ask(
        "POST", IMPORT, params={"agent_config_uuid": config}, content=pieces(), headers=JSON_LINES
    )

    assert (answer.status_code, answer.json()["imported"]) == (200, 300)


async def test_a_body_that_is_no_file_is_refused(gateway: Asking) -> None:
    config = await gateway.config()

    as_json = await send(gateway, config, file_of(), content_type="application/json")
    packed = await send(gateway, config, file_of(), content_encoding="gzip")
    unnamed = await gateway.ask("POST", IMPORT, content=file_of(), headers=JSON_LINES)

    assert [answer.status_code for answer in (as_json, packed, unnamed)] == [415, 415, 422]
    assert as_json.json()["type"] == "urn:lorebus:problem:unsupported-file-type"


async def test_the_same_key_gives_the_same_answer(gateway: Asking) -> None:
    config = await gateway.config()
    first = await send(gateway, config, file_of({"text": "a"}), idempotency_key="once")
    again = await send(gateway, config, file_of({"text": "a"}), idempotency_key="once")
    other = await send(gateway, config, file_of({"text": "b"}), idempotency_key="once")
    elsewhere = await send(gateway, await gateway.config(), file_of({"text": "a"}), idempotency_key="once")

    assert (
        first.json() == again.json() == {"entries": 1, "imported": 1, "present": 0, "erased": 0, "skipped": 0}
    )
    assert [answer.status_code for answer in (first, again, other, elsewhere)] == [200, 200, 409, 409]


async def test_an_agent_config_of_somebody_else_is_not_there(gateway: Asking) -> None:
    config = await gateway.config()
    other_key = await create_key(gateway.database, uuid4(), name="test")

    exported = await gateway.ask("GET", EXPORT, params={"agent_config_uuid": config}, key=other_key)
    sent = await send(gateway, config, file_of({"text": "a"}), key=other_key)

    assert (exported.status_code, sent.status_code) == (404, 404)
    assert await count(gateway, "memories") == 0


async def test_an_export_that_cannot_go_on_is_cut_off_before_its_end(
    gateway: Asking, database_url: str
) -> None:
    config = await gateway.config()
    # More than the kernel takes before anybody reads.
    for start in range(0, 4_000, 500):
        await imported(
            gateway, config, file_of(*({"text": f"{start + n} " + "x" * 9_000} for n in range(500)))
        )
    headers = {"authorization": f"Bearer {gateway.api_key}"}
    params = {"agent_config_uuid": str(config)}
    chunks: list[bytes] = []

    async def read_all(answer: httpx.Response) -> None:
        async for chunk in answer.aiter_raw():
            chunks.append(chunk)  # noqa: PERF401 - What was read is kept when the next chunk never comes.

    async with (
        gateway.client.stream("GET", EXPORT, headers=headers, params=params) as answer,
        database_away(database_url),
    ):
        with pytest.raises(httpx.RemoteProtocolError):
            await read_all(answer)
    read = b"".join(chunks)
    assert read.startswith(b'{"format"')
    assert b'"end"' not in read


async def test_an_empty_agent_config_is_an_empty_file(gateway: Asking) -> None:
    file = await export(gateway, await gateway.config())

    assert file == b'{"format":"lorebus.memory","version":1}\n{"end":true,"entries":0}\n'
    assert (await imported(gateway, await gateway.config(), file))["entries"] == 0
