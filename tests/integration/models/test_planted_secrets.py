"""Secrets planted in real traces: none comes out anywhere, though the model gives back all that it was shown."""

import json
from pathlib import Path
from typing import Final
from uuid import uuid4

import asyncpg
import httpx
import pytest

from lorebus_contracts.events import SessionEnded, ToolCallBody
from lorebus_contracts.topics import DISTILL_GROUP, SAVE_GROUP, SAVE_REQUESTED, SESSION_ENDED
from lorebus_contracts.wire import parse
from lorebus_kit.run_ids import distill_run_id, distill_save_id
from lorebus_store import settings
from tests.support.databases import ArrangedDatabase, owner_of
from tests.support.events import Scope, new_scope
from tests.support.memory import ended_run, known_scope
from tests.support.model_server import Asked, fails, model_server, says
from tests.support.running import running
from tests.unit.domain.distilling.secrets_to_plant import PLANTED

REAL_SESSIONS: Final = Path(__file__).parents[3] / "services/lorebus_ops/data/sessions.jsonl"
LESSON_CHARS: Final = 9_000
OURS: Final = "lorebus-"


def planted(line: bytes, scope: Scope, secret: str) -> SessionEnded:
    """A real session whose task, and a call's input and output, hold a secret; so does one more call, in its shape."""
    event = parse(SessionEnded, line)
    *before, last = event.trace or (ToolCallBody(tool="note"),)
    half = len(last.output) // 2
    spoilt = last.model_copy(
        update={
            "input": {"given": last.input, "note": f"see {secret}"},
            "output": f"{last.output[:half]}\n{secret}\n{last.output[half:]}",
        }
    )
    noted = ToolCallBody(tool="keep_note", input={"text": secret}, output=json.dumps({"kept": secret}))
    return event.model_copy(
        update={
            "event_id": uuid4(),
            "session_uuid": uuid4(),
            "organization_uuid": scope.organization_uuid,
            "agent_config_uuid": scope.agent_config_uuid,
            "task": f"{event.task}\n{secret}",
            "step_count": max(2, event.step_count),
            "outcome": event.outcome,
            "trace": (*before, spoilt, noted),
        }
    )


async def parrot(asked: Asked, writer: object) -> None:
    """A model that makes five lessons of whatever it was shown last."""
    shown = asked.prompt[-5 * LESSON_CHARS :]
    pieces = [shown[start : start + LESSON_CHARS] for start in range(0, len(shown), LESSON_CHARS)]
    await says(json.dumps([{"text": piece} for piece in pieces]))(asked, writer)  # type: ignore[arg-type]  # A writer as given.


async def scope_of(database: ArrangedDatabase, profile: str) -> Scope:
    scope = await known_scope(database, scope=new_scope())
    async with database.begin() as connection:
        await settings.put_organization(connection, scope.organization_uuid, model_profile=profile)
    return scope


async def everything_in(database_url: str, *tables: str) -> str:
    """All rows of these tables as text."""
    connection = await asyncpg.connect(owner_of(database_url))
    try:
        rows = [
            row[0]
            for table in tables
            for row in await connection.fetch(f"SELECT t::text FROM lorebus.{table} t")  # noqa: S608  # Our names.
        ]
    finally:
        await connection.close()
    return "\n".join(rows)


@pytest.mark.timeout(300)
async def test_no_planted_secret_of_any_kind_comes_out_anywhere(
    database_url: str, bootstrap_servers: str, topics: str
) -> None:
    assert len(PLANTED) >= 20
    lines = REAL_SESSIONS.read_bytes().splitlines()
    async with model_server(otherwise=parrot) as server, model_server(otherwise=fails(500)) as away:
        models = {"parrot": server.profile(calls_at_once=4), "away": away.profile()}
        async with running(
            "distill",
            "save",
            database_url=database_url,
            bootstrap_servers=bootstrap_servers,
            topics=topics,
            extra={
                "LOREBUS_MODELS": json.dumps(models),
                "LOREBUS_LOG_LEVEL": "DEBUG",
                "LOREBUS_DISTILL_RETRY_SECONDS": "0.1",
                "LOREBUS_DISTILL_CONCURRENCY_PER_ORGANIZATION": "4",
            },
        ) as made:
            scope, failing = await scope_of(made.database, "parrot"), await scope_of(made.database, "away")
            texts = [text for text, _ in PLANTED.values()]
            sessions = [
                planted(line, scope, text) for line, text in zip(lines[: len(texts)], texts, strict=True)
            ]
            doomed = planted(lines[0], failing, "\n".join(texts[1:]))
            unknown = planted(lines[0], new_scope(), "\n".join(texts[1:]))
            await made.wire.send(*sessions, doomed, unknown)
            runs = [
                await ended_run(made.database, scope, distill_run_id(event.session_uuid))
                for event in sessions
            ]
            for event in sessions:
                await ended_run(made.database, scope, distill_save_id(event.session_uuid))
            failed = await ended_run(made.database, failing, distill_run_id(doomed.session_uuid))
            [dead] = await made.wire.dead_letters(SESSION_ENDED, DISTILL_GROUP, count=1)

            assert {run.state_name for run in runs} == {"completed"}
            assert failed.state_data["failure_reason"] == "model_away"
            # The dead letter is the runtime's own record, untouched; what we say about it holds nothing of it.
            told = {name: value for name, value in dead.headers if name.startswith(OURS)}
            async with httpx.AsyncClient() as client:
                metrics = [(await client.get(f"{service.url}/metrics")).text for service in made.services]
            where = {
                "the model's input": "\n".join(json.dumps(a.body) for a in (*server.asked, *away.asked)),
                "memories": await everything_in(database_url, "memories", "memory_evidence"),
                "runs and outbox": await everything_in(database_url, "workflow_runs", "outbox"),
                "save requests": str([record.value for record in await made.wire.read(SAVE_REQUESTED.name)]),
                "logs": "\n".join(service.log() for service in made.services),
                "metrics": "\n".join(metrics),
                "dead letters of lessons": str(await made.wire.dead_letters(SAVE_REQUESTED, SAVE_GROUP)),
                "what dead letters say": str(told),
            }
    found = [
        (place, kind) for place, text in where.items() for kind, (_, part) in PLANTED.items() if part in text
    ]
    assert found == []
    # The model did see where they had been, and each kind was counted by its name.
    assert all("[redacted:" in asked.prompt for asked in server.asked)
    counted = {kind for run in runs for kind in run.state_data["redacted"]}
    assert set(PLANTED) <= counted | {"secret"}
    assert 'lorebus_redacted_total{kind="jwt"}' in where["metrics"]
    assert len(where["memories"]) > 100_000
