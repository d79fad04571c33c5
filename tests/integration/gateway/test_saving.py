"""POST memory-save (SPEC.md sections 3, 6 and 8): accepted means durable, and nothing wrong is accepted."""

import gzip
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from tests.support.gateways import Asking, Registered


async def a_session(gateway: Asking, caller: Mapping[str, object] | None = None) -> Registered:
    return await gateway.session(await gateway.config(), caller)


async def accepted_events(gateway: Asking) -> list[dict[str, Any]]:
    rows = await gateway.rows("SELECT payload FROM lorebus.outbox ORDER BY id")
    return [json.loads(row["payload"]) for row in rows]


async def nothing_is_stored(gateway: Asking) -> bool:
    runs = await gateway.rows("SELECT id FROM lorebus.workflow_runs")
    return not runs and not await accepted_events(gateway)


async def test_a_save_is_accepted_with_its_run_and_its_event_in_one_transaction(gateway: Asking) -> None:
    config = await gateway.config()
    session = await gateway.session(config, {"kind": "end_user", "ref": "bob"})

    answer = await gateway.save(session, {"entries": [{"text": "prefers tea", "importance": 0.8}]})

    assert answer.status_code == 202
    workflow_id = answer.json()["workflow_id"]
    assert answer.headers["location"] == f"/api/workflows/{workflow_id}"
    (run,) = await gateway.rows("SELECT * FROM lorebus.workflow_runs")
    (row,) = await gateway.rows("SELECT * FROM lorebus.outbox")
    assert (str(run["id"]), run["type"], run["state_name"]) == (
        workflow_id,
        "agents.memory-save",
        "initiated",
    )
    assert run["pending_input"] == row["payload"]
    event = json.loads(row["payload"])
    assert (row["topic"], row["key"]) == ("memory.save-requested", f"{config}|bob".encode())
    assert (event["event_id"], str(row["event_id"])) == (workflow_id, workflow_id)
    assert event["organization_uuid"] == str(gateway.organization_uuid)
    assert event["agent_config_uuid"] == str(config)
    assert event["session_uuid"] == str(session.uuid)
    assert event["caller"] == {"kind": "end_user", "ref": "bob"}
    assert event["principal_ref"] == "bob"
    assert event["entries"] == [{"text": "prefers tea", "importance": 0.8}]
    assert event["origin"] == "runner"


async def test_content_is_one_entry_of_default_importance(gateway: Asking) -> None:
    session = await a_session(gateway)

    answer = await gateway.save(session, {"content": "deploys happen at noon"})

    assert answer.status_code == 202
    (event,) = await accepted_events(gateway)
    assert event["entries"] == [{"text": "deploys happen at noon", "importance": 0.5}]


@pytest.mark.parametrize(
    ("caller", "principal_ref"),
    [
        ({"kind": "none"}, None),
        ({"kind": "end_user", "ref": " bob "}, " bob "),
        ({"kind": "end_user", "ref": "Bob"}, "Bob"),
        ({"kind": "actor", "ref": "ann|x"}, "ann|x"),
        ({"kind": "end_user", "ref": None}, None),
        ({"kind": "end_user", "ref": ""}, None),
        ({"kind": "end_user", "ref": "   "}, None),
    ],
)
async def test_a_save_goes_to_the_callers_own_memory(
    gateway: Asking, caller: dict[str, str | None], principal_ref: str | None
) -> None:
    session = await a_session(gateway, caller)

    await gateway.save(session, {"content": "x marks the spot"})

    (event,) = await accepted_events(gateway)
    assert event["caller"]["kind"] == caller["kind"]
    assert event["caller"]["ref"] == principal_ref
    assert event["principal_ref"] == principal_ref


async def test_u0000_is_removed_and_other_entries_are_unharmed(gateway: Asking) -> None:
    session = await a_session(gateway)

    answer = await gateway.save(session, {"entries": [{"text": "disk\0full"}, {"text": "other"}]})

    assert answer.status_code == 202
    (event,) = await accepted_events(gateway)
    assert [entry["text"] for entry in event["entries"]] == ["diskfull", "other"]
    assert not await gateway.rows(
        "SELECT id FROM lorebus.outbox WHERE position('\\x5c7530303030' in payload) > 0"
    )


async def test_a_half_surrogate_is_replaced_and_a_whole_emoji_untouched(gateway: Asking) -> None:
    session = await a_session(gateway)

    answer = await gateway.save(session, raw=b'{"content": "ship \\ud83d it \\ud83d\\ude80"}')

    assert answer.status_code == 202
    (event,) = await accepted_events(gateway)
    assert event["entries"][0]["text"] == "ship \ufffd it \U0001f680"


async def test_a_text_of_10_001_code_points_is_refused_with_its_length_and_the_limit(gateway: Asking) -> None:
    session = await a_session(gateway)

    answer = await gateway.save(session, {"entries": [{"text": "fine"}, {"text": "x" * 10_001}]})

    assert answer.status_code == 422
    (fault,) = answer.json()["faults"]
    assert fault["path"] == "entries.1.text"
    assert "10001" in fault["problem"]
    assert "10000" in fault["problem"]
    assert "xxxx" not in answer.text
    assert await nothing_is_stored(gateway)


async def test_a_text_of_10_000_code_points_outside_the_basic_plane_is_accepted(gateway: Asking) -> None:
    session = await a_session(gateway)

    answer = await gateway.save(session, {"content": "\U0001f680" * 10_000})

    assert answer.status_code == 202


async def test_100_entries_are_accepted_and_101_refused(gateway: Asking) -> None:
    session = await a_session(gateway)

    enough = await gateway.save(session, {"entries": [{"text": f"fact {i}"} for i in range(100)]})
    too_many = await gateway.save(session, {"entries": [{"text": f"fact {i}"} for i in range(101)]})

    assert (enough.status_code, too_many.status_code) == (202, 422)
    assert too_many.json()["faults"][0]["path"] == "entries"
    assert len(await accepted_events(gateway)) == 1


@pytest.mark.parametrize(
    "importance", ["NaN", "Infinity", "-Infinity", "1e999", "true", '"0.7"', "-0.1", "1.1", "null"]
)
async def test_an_importance_that_is_no_number_in_0_to_1_is_refused_with_its_path(
    gateway: Asking, importance: str
) -> None:
    session = await a_session(gateway)
    raw = f'{{"entries": [{{"text": "good"}}, {{"text": "bad", "importance": {importance}}}]}}'

    answer = await gateway.save(session, raw=raw.encode())

    assert answer.status_code == 422
    assert [fault["path"] for fault in answer.json()["faults"]] == ["entries.1.importance"]
    assert await nothing_is_stored(gateway)


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"", ""),
        (b"   ", ""),
        (b"null", ""),
        (b"[]", ""),
        (b'"text"', ""),
        (b"{", ""),
        (b"{}", ""),
        (b"\xff\xfe{}", ""),
        (b'{"content": "a", "content": "b"}', ""),
        (b'{"entries": [{"text": "a", "text": "b"}]}', ""),
        (b'{"content": "a", "entries": [{"text": "b"}]}', ""),
        (b'{"content": null}', ""),
        (b'{"content": 7}', "content"),
        (b'{"content": "a", "principal_ref": "bob"}', "principal_ref"),
        (b'{"content": "a", "organization_uuid": "x"}', "organization_uuid"),
        (b'{"content": "a", "caller": {"kind": "actor", "ref": "ann"}}', "caller"),
        (b'{"content": "a", "\\ud83d": 1}', None),
        (b'{"content": "a", "what is this?": 1}', "?"),
        (b'{"entries": []}', "entries"),
        (b'{"entries": "abc"}', "entries"),
        (b'{"entries": [{"importance": 0.5}]}', "entries.0.text"),
        (b'{"entries": [{"text": "a", "principal_ref": "bob"}]}', "entries.0.principal_ref"),
        (b'{"content": ' + b"[" * 100_000, ""),
        (b'{"content": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", None),
        (b'{"content": ' + b"9" * 5_000 + b"}", ""),
    ],
)
async def test_a_body_that_is_not_what_it_should_be_is_refused(
    gateway: Asking, raw: bytes, path: str | None
) -> None:
    session = await a_session(gateway)

    answer = await gateway.save(session, raw=raw)

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"] == "urn:lorebus:problem:invalid-request"
    assert path is None or [fault["path"] for fault in problem["faults"]] == [path]
    assert await nothing_is_stored(gateway)


@pytest.mark.parametrize(
    "media_type",
    ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", "json", ""],
)
async def test_a_body_that_says_it_is_no_json_in_utf_8_is_refused(gateway: Asking, media_type: str) -> None:
    session = await a_session(gateway)

    answer = await gateway.save(session, raw=b'{"content": "a"}', headers={"content-type": media_type})

    assert answer.status_code == 415
    assert answer.json()["type"] == "urn:lorebus:problem:unsupported-media-type"


@pytest.mark.parametrize(
    "media_type", ["application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"]
)
async def test_json_may_say_that_it_is_utf_8(gateway: Asking, media_type: str) -> None:
    session = await a_session(gateway)

    answer = await gateway.save(session, raw=b'{"content": "a"}', headers={"content-type": media_type})

    assert answer.status_code == 202


async def test_a_body_of_2_mib_is_refused_by_its_announced_length(gateway: Asking) -> None:
    session = await a_session(gateway)

    answer = await gateway.save(session, raw=b'{"content": "' + b"x" * 2_097_152 + b'"}')

    assert answer.status_code == 413
    assert answer.json()["type"] == "urn:lorebus:problem:body-too-large"
    assert await nothing_is_stored(gateway)


async def test_a_chunked_body_is_refused_once_it_is_over_1_mib(gateway: Asking) -> None:
    session = await a_session(gateway)

    async def chunks() -> AsyncIterator[bytes]:
        yield b'{"content": "'
        for _ in range(20):
            yield b"x" * 65_536

    answer = await gateway.save(session, raw=chunks())

    assert answer.status_code == 413


async def test_a_chunked_body_within_the_limit_is_read_whole(gateway: Asking) -> None:
    session = await a_session(gateway)

    async def chunks() -> AsyncIterator[bytes]:
        for part in (b'{"con', b'tent": "in ', b'parts"}'):
            yield part

    answer = await gateway.save(session, raw=chunks())

    assert answer.status_code == 202
    (event,) = await accepted_events(gateway)
    assert event["entries"][0]["text"] == "in parts"


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br", "deflate", "identity, gzip", "gzip, identity"])
async def test_a_packed_body_is_refused_unread(gateway: Asking, encoding: str) -> None:
    session = await a_session(gateway)
    bomb = gzip.compress(b'{"content": "' + b" " * 50_000_000 + b'"}')

    answer = await gateway.save(session, raw=bomb, headers={"content-encoding": encoding})

    assert answer.status_code == 415
    assert answer.json()["type"] == "urn:lorebus:problem:unsupported-media-type"
    assert await nothing_is_stored(gateway)


async def test_a_body_may_say_that_it_is_not_packed(gateway: Asking) -> None:
    session = await a_session(gateway)

    answer = await gateway.save(session, raw=b'{"content": "a"}', headers={"content-encoding": "identity"})

    assert answer.status_code == 202


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b'{"entries": [' + b"{}," * 999_999 + b"{}]}", 413),
        (b'{"entries": [' + b"{}," * 340_000 + b"{}]}", 422),
        (b'{"entries": [' + b"1," * 500_000 + b"1]}", 422),
        (b'{"entries": [' + b'{"text":"a"},' * 80_000 + b'{"text":"a"}]}', 422),
        (b'{"content": "a"' + b"".join(b',"%d":1' % number for number in range(100_000)) + b"}", 422),
        (b'{"content": ' + b"[" * 500_000 + b"]" * 500_000 + b"}", 422),
    ],
)
async def test_as_much_as_a_body_can_hold_is_refused_with_a_readable_answer(
    gateway: Asking, raw: bytes, status: int
) -> None:
    session = await a_session(gateway)

    answer = await gateway.save(session, raw=raw)

    assert answer.status_code == status
    assert len(answer.json().get("faults", ())) <= 20
    assert len(answer.content) < 4_000
    assert await nothing_is_stored(gateway)
