"""The offline checker: compares what was accepted with what the database holds once everything is quiet.

Each function gives its complaints as sentences; none means that nothing is lost, counted twice or stuck. It reads the
tables itself and shares no code with the store, whose work it judges.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import asyncpg

from lorebus_contracts.events import PruneRequested, RecallRecorded, SaveRequested, SessionEnded, SessionRated
from lorebus_kit.run_ids import distill_run_id, distill_save_id
from tests.support.load import TOOLS, Ledger

LEAST_KEPT: Final = 0.1
Complaints = tuple[str, ...]


@dataclass(slots=True)
class _Expected:
    """What one text of one scope should have become."""

    occurrences: int = 0
    importances: list[float] = field(default_factory=list)


async def check_saves(
    database: asyncpg.Connection, ledger: Ledger, *, organization: UUID | None = None
) -> Complaints:
    """Every accepted save applied once: its run, its entries, the counts of each text; nothing from nowhere.

    A save of which nobody knows may be there or not, but whole: its own text tells.
    """
    rows = await _memories(database, organization)
    there = {(row["agent_config_uuid"], row["principal_ref"], row["text"]) for row in rows}
    unsure = [event for event in ledger.unsure_of(SaveRequested) if _own(event) in there]
    applied = [*ledger.accepted_of(SaveRequested), *unsure]
    runs = await _runs(database, "agents.memory-save", organization)
    refused = [event for event in ledger.refused.values() if isinstance(event, SaveRequested)]
    return (
        *_wrong_runs(runs, ledger.accepted_of(SaveRequested), may_be_more=len(unsure)),
        *_wrong_entries(rows, applied),
        *_wrong_totals(rows, runs.values()),
        *(f"a refused save was applied: {_own(event)[2]}" for event in refused if _own(event) in there),
    )


async def check_distills(
    database: asyncpg.Connection, ledger: Ledger, *, organization: UUID | None = None
) -> Complaints:
    """Every ended session distilled once, its one lesson saved once."""
    ended = ledger.accepted_of(SessionEnded)
    distills = await _runs(database, "agents.memory-distill", organization)
    saves = await _runs(database, "agents.memory-save", organization)
    complaints = [
        *_not_completed_once(distills, [distill_run_id(event.session_uuid) for event in ended]),
        *_not_completed_once(saves, [distill_save_id(event.session_uuid) for event in ended]),
    ]
    expected = Counter(event.trace[0].tool for event in ended)
    rows = await _memories(database, organization)
    for tool in (f"book_{word}" for word in TOOLS):
        found = sum(row["reinforcement_count"] + 1 for row in rows if f"`{tool}`" in row["text"])
        if found != expected[tool]:
            complaints.append(f"{expected[tool]} sessions taught about {tool}, {found} lessons were counted")
    return tuple(complaints)


async def check_labels(database: asyncpg.Connection, ledger: Ledger) -> Complaints:
    """Every recall recorded once and counted once per entry; outcomes and ratings as they were told."""
    recalls = ledger.accepted_of(RecallRecorded)
    expected = Counter(entry.memory_id for recall in recalls for entry in recall.entries)
    counted = {row["id"]: row["access_count"] for row in await _memories(database)}
    recorded = {row["recall_id"] for row in await database.fetch("SELECT recall_id FROM lorebus.recalls")}
    sessions = {
        row["session_uuid"]: row
        for row in await database.fetch("SELECT session_uuid, outcome, quality_score FROM lorebus.sessions")
    }
    return (
        *(f"recall {r.event_id} is not recorded" for r in recalls if r.event_id not in recorded),
        *(
            f"entry {memory} was handed out {expected[memory]} times and counted {times} times"
            for memory, times in counted.items()
            if times != expected[memory]
        ),
        *(
            f"session {event.session_uuid} is not known to have ended with {event.outcome}"
            for event in ledger.accepted_of(SessionEnded)
            if sessions.get(event.session_uuid, {}).get("outcome") != event.outcome
        ),
        *(
            f"session {event.session_uuid} is not known to be rated {event.quality_score}"
            for event in ledger.accepted_of(SessionRated)
            if sessions.get(event.session_uuid, {}).get("quality_score") != event.quality_score
        ),
    )


async def check_recalls(database: asyncpg.Connection, answered: Iterable[UUID]) -> Complaints:
    """Every answered load recorded, and what each handed out counted once."""
    recorded = {row["recall_id"] for row in await database.fetch("SELECT recall_id FROM lorebus.recalls")}
    handed_out = "SELECT count(*) FROM lorebus.recall_entries"
    counted = "SELECT coalesce(sum(access_count), 0) FROM lorebus.memories"
    entries, accesses = await database.fetchval(handed_out), await database.fetchval(counted)
    return (
        *(f"recall {one} was answered and is not recorded" for one in answered if one not in recorded),
        *([f"{entries} entries were handed out, {accesses} accesses counted"] if entries != accesses else []),
    )


async def check_prunes(
    database: asyncpg.Connection, ledger: Ledger, *, saved: int, deleted: int = 0
) -> Complaints:
    """Every prune done once, and their results exact: what was saved is there, pruned or deleted by hand."""
    runs = await _runs(database, "agents.memory-prune")
    requested = [event.event_id for event in ledger.accepted_of(PruneRequested)]
    pruned = sum(run.data.get("deleted", 0) for run in runs.values())
    left = len(await _memories(database))
    complaints = list(_not_completed_once(runs, requested))
    if saved != left + pruned + deleted:
        complaints.append(f"{saved} saved, but {left} left, {pruned} pruned and {deleted} deleted")
    return tuple(complaints)


async def check_quiet(database: asyncpg.Connection) -> Complaints:
    """Nothing under way any more: outbox empty, every run ended well, every counter true."""
    waiting = await database.fetchval("SELECT count(*) FROM lorebus.outbox")
    open_runs = await database.fetch(
        "SELECT type, state_name, count(*) AS runs FROM lorebus.workflow_runs WHERE state_name <> 'completed'"
        " GROUP BY 1, 2"
    )
    counters = await database.fetch(
        "SELECT c.agent_config_uuid, c.entry_count, count(m.id) AS entries FROM lorebus.agent_configs c"
        " LEFT JOIN lorebus.memories m USING (organization_uuid, agent_config_uuid) GROUP BY 1, 2"
    )
    return (
        *([f"{waiting} rows are left in the outbox"] if waiting else []),
        *(f"{row['runs']} runs of {row['type']} are {row['state_name']}" for row in open_runs),
        *(
            f"the counter says {row['entry_count']}, there are {row['entries']} entries"
            for row in counters
            if row["entry_count"] != row["entries"]
        ),
    )


@dataclass(frozen=True, slots=True)
class _Run:
    state: str
    data: Mapping[str, Any]
    states: Sequence[str]


async def _runs(
    database: asyncpg.Connection, kind: str, organization: UUID | None = None
) -> dict[UUID, _Run]:
    rows = await database.fetch(
        "SELECT id, state_name, state_data, history FROM lorebus.workflow_runs"
        " WHERE type = $1 AND ($2::uuid IS NULL OR organization_uuid = $2)",
        kind,
        organization,
    )
    return {
        row["id"]: _Run(
            state=row["state_name"],
            data=json.loads(row["state_data"]),
            states=[step["state_name"] for step in json.loads(row["history"])],
        )
        for row in rows
    }


async def _memories(database: asyncpg.Connection, organization: UUID | None = None) -> list[asyncpg.Record]:
    rows: list[asyncpg.Record] = await database.fetch(
        "SELECT id, agent_config_uuid, principal_ref, text, importance, reinforcement_count, access_count"
        " FROM lorebus.memories WHERE $1::uuid IS NULL OR organization_uuid = $1",
        organization,
    )
    return rows


def _own(event: SaveRequested) -> tuple[UUID, str | None, str]:
    return (event.agent_config_uuid, event.principal_ref, event.entries[0].text)


def _not_completed_once(runs: Mapping[UUID, _Run], wanted: Iterable[UUID]) -> Complaints:
    complaints = []
    for run_id in wanted:
        run = runs.get(run_id)
        if run is None:
            complaints.append(f"run {run_id} was accepted and is missing")
        elif run.states.count("completed") != 1 or run.state != "completed":
            complaints.append(f"run {run_id} is {run.state} with the history {', '.join(run.states)}")
    return tuple(complaints)


def _wrong_runs(
    runs: Mapping[UUID, _Run], accepted: Sequence[SaveRequested], *, may_be_more: int
) -> Complaints:
    complaints = list(_not_completed_once(runs, [event.event_id for event in accepted]))
    completed = sum(run.state == "completed" for run in runs.values())
    if completed != len(accepted) + may_be_more:
        complaints.append(
            f"{len(accepted)} saves were accepted and {may_be_more} more applied, {completed} completed"
        )
    for event in accepted:
        run = runs.get(event.event_id)
        kept = sum(entry.importance >= LEAST_KEPT for entry in event.entries)
        told = () if run is None else (run.data.get("saved", 0) + run.data.get("reinforced", 0),)
        if told and told != (kept,):
            complaints.append(f"run {event.event_id} kept {told[0]} of the {kept} entries that were accepted")
    return tuple(complaints)


def _wrong_entries(rows: Iterable[asyncpg.Record], applied: Iterable[SaveRequested]) -> Complaints:
    expected: dict[tuple[UUID, str | None, str], _Expected] = defaultdict(_Expected)
    for event in applied:
        for entry in event.entries:
            if entry.importance >= LEAST_KEPT:
                one = expected[event.agent_config_uuid, event.principal_ref, entry.text]
                one.occurrences += 1
                one.importances.append(entry.importance)
    complaints = []
    for row in rows:
        one = expected.pop((row["agent_config_uuid"], row["principal_ref"], row["text"]), _Expected())
        if row["reinforcement_count"] + 1 != one.occurrences:
            complaints.append(
                f"{row['text']!r} was saved {one.occurrences} times, counted {row['reinforcement_count'] + 1} times"
            )
        elif row["importance"] != max(one.importances):
            complaints.append(f"{row['text']!r} has importance {row['importance']}, not the highest given")
    complaints += [
        f"{text!r} was saved {one.occurrences} times and is missing" for (_, _, text), one in expected.items()
    ]
    return tuple(complaints)


def _wrong_totals(rows: Sequence[asyncpg.Record], runs: Iterable[_Run]) -> Complaints:
    told = Counter({"saved": len(rows), "reinforced": sum(row["reinforcement_count"] for row in rows)})
    for run in runs:
        told.subtract({name: run.data.get(name, 0) for name in ("saved", "reinforced")})
    return tuple(f"the runs' {name} differs by {-by} from the entries" for name, by in told.items() if by)
