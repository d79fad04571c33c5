"""Saving: each accepted entry is kept once or counted as one more confirmation, whatever is delivered how often.

The rule that must not break: entries, counters, runs and what follows from them are one transaction.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from lorebus_contracts.events import (
    ChangeKind,
    Event,
    MemoryChanged,
    Origin,
    PruneRequested,
    SaveRequested,
)
from lorebus_contracts.workflows import EntryOutcome, EntryResult, SaveOutput, State, WorkflowType
from lorebus_domain.saving import SavePlan, SaveSkip, fold, plan_save, save_gate
from lorebus_domain.visibility import MemoryScope, write_scope
from lorebus_kit.emitting import memory_changed, outbox_row
from lorebus_kit.erased import erased_events
from lorebus_kit.verdicts import UNKNOWN_ORGANIZATION, Applied, Duplicate, Rejected, Skipped, Verdict
from lorebus_save import lessons
from lorebus_save.lessons import KeptLesson, Recalled, Rows, held_for
from lorebus_store import memories, outbox, runs, settings
from lorebus_store.database import Connection
from lorebus_store.errors import TransientError
from lorebus_store.locks import ConfigPair
from lorebus_store.memories import EntrySource, Upserted
from lorebus_store.new_ids import new_ids
from lorebus_store.run_rows import FinishedRun, RunKey, Step
from lorebus_store.settings import ScopeSettings

_NOTHING: Final = SavePlan((), ())
_KINDS: Final = {
    EntryOutcome.SAVED: ChangeKind.SAVED,
    EntryOutcome.REINFORCED: ChangeKind.REINFORCED,
}


@dataclass(frozen=True, slots=True)
class _Save:
    """One event on its way: why it writes nothing (there is no scope then), or its plan and the scope it goes to."""

    event: SaveRequested
    skip: SaveSkip | None
    plan: SavePlan = _NOTHING
    scope: MemoryScope | None = None


class _First(NamedTuple):
    """What the first save of a text in a scope gives its row, where that is new."""

    id: UUID
    source: EntrySource


async def on_save_requested(connection: Connection, events: Sequence[Event]) -> Sequence[Verdict]:
    """Save all entries of a batch; one verdict an event."""
    requests = [event for event in events if isinstance(event, SaveRequested)]
    erased = await erased_events(connection, requests)
    known = await settings.load_settings(connection, {_pair(event) for event in requests})
    done = await runs.known_runs(connection, [_run_key(event) for event in requests])
    verdicts: list[Verdict] = []
    saves: dict[tuple[UUID, UUID], _Save] = {}
    for event in requests:
        key = _run_key(event)
        if not known[_pair(event)].organization_known:
            verdicts.append(Rejected(UNKNOWN_ORGANIZATION))
        elif done.get(key) == State.COMPLETED or key in saves:
            verdicts.append(Duplicate())
        else:
            save = saves[key] = _planned(event, known[_pair(event)], is_erased=event.event_id in erased)
            verdicts.append(Applied() if save.skip is None else Skipped(save.skip.value))
    await _store(connection, tuple(saves.values()))
    return verdicts


def _planned(event: SaveRequested, scope: ScopeSettings, *, is_erased: bool) -> _Save:
    if scope.organization is None or scope.config is None:
        return _Save(event, SaveSkip.UNKNOWN_AGENT_CONFIG)
    if is_erased:
        return _Save(event, SaveSkip.ERASED)
    skip = save_gate(
        organization_enabled=scope.organization.memory_enabled,
        config_enabled=scope.config.memory_enabled,
        caller=event.caller.resolve(),
    )
    if skip is not None:
        return _Save(event, skip)
    goes_to = MemoryScope(event.organization_uuid, event.agent_config_uuid, _principal(event))
    return _Save(event, None, plan_save(event.entries), goes_to)


async def _store(connection: Connection, saves: Sequence[_Save]) -> None:
    """Entries first, then the runs that tell of them, then counters and what follows."""
    if not saves:
        return
    recalled = await lessons.recalled_by(connection, [save.event for save in saves])
    upserted = await _upsert(connection, saves, recalled)
    rows = {
        scope: {row.fingerprint: row for row in of_scope}
        for scope, of_scope in groupby(upserted, key=attrgetter("scope"))
    }
    results = _results(saves, rows, recalled)
    finished = [_finished(save, of_save) for save, of_save in zip(saves, results, strict=True)]
    claimed = await runs.record_finished(connection, finished)
    if len(claimed) < len(finished):
        raise TransientError("another consumer has just done a part of this batch; it is tried again")
    await lessons.leave_evidence(connection, _distilled(saves), rows, recalled)
    follow = (*_changes(saves, results), *await _prunes(connection, upserted))
    await outbox.add(connection, [outbox_row(event) for event in follow])


async def _upsert(connection: Connection, saves: Sequence[_Save], recalled: Recalled) -> tuple[Upserted, ...]:
    kept = [(save.event, scope, entry) for save, scope in _writing(saves) for entry in save.plan.kept]
    if not kept:
        return ()
    await memories.share_configs(connection, {_pair(save.event) for save, _ in _writing(saves)})
    folded = fold((scope, entry) for _, scope, entry in kept)
    firsts = _firsts(saves, recalled, len(kept))
    found = [
        firsts[scope][row.fingerprint] for scope, rows in groupby(folded, attrgetter("scope")) for row in rows
    ]
    return await memories.upsert_reinforcing(
        connection, folded, ids=[first.id for first in found], sources=[first.source for first in found]
    )


def _writing(saves: Iterable[_Save]) -> Iterator[tuple[_Save, MemoryScope]]:
    """The saves that keep something, and where."""
    return ((save, save.scope) for save in saves if save.scope is not None and save.plan.kept)


def _firsts(
    saves: Sequence[_Save], recalled: Recalled, most: int
) -> Mapping[MemoryScope, Mapping[bytes, _First]]:
    """The first save of each text; ids follow the order of the requests.

    So of two entries of one time the later one is the newer.
    """
    ids = iter(new_ids(most))
    firsts: dict[MemoryScope, dict[bytes, _First]] = {}
    for save, scope in _writing(saves):
        of_scope = firsts.setdefault(scope, {})
        for entry in save.plan.kept:
            first = of_scope.get(entry.fingerprint)
            if first is None:
                first = _First(next(ids), _source(save.event, entry.text))
            if recalled.is_echo(save.event, entry.fingerprint):
                first = first._replace(source=first.source._replace(echoes=first.source.echoes + 1))
            of_scope[entry.fingerprint] = first
    return firsts


def _distilled(saves: Sequence[_Save]) -> tuple[KeptLesson, ...]:
    return tuple(
        KeptLesson(save.event, scope, entry)
        for save, scope in _writing(saves)
        if save.event.origin is Origin.DISTILL
        for entry in save.plan.kept
    )


def _results(saves: Sequence[_Save], rows: Rows, recalled: Recalled) -> tuple[tuple[EntryResult, ...], ...]:
    """Per save what became of each entry: the first occurrence of a new text is saved, each other reinforced."""
    fresh = {scope: {key for key, row in found.items() if row.inserted} for scope, found in rows.items()}
    results = []
    for save in saves:
        told = [
            EntryResult(position=s.position, outcome=EntryOutcome.SKIPPED, reason=s.reason)
            for s in save.plan.skipped
        ]
        if save.scope is not None and save.plan.kept:
            told += _kept_results(save, rows[save.scope], fresh[save.scope], recalled)
        results.append(tuple(sorted(told, key=attrgetter("position"))))
    return tuple(results)


def _kept_results(
    save: _Save, rows: Mapping[bytes, Upserted], fresh: set[bytes], recalled: Recalled
) -> Iterator[EntryResult]:
    """The results of one scope's entries; what is told as saved is fresh no more."""
    for entry in save.plan.kept:
        row = rows[entry.fingerprint]
        outcome = EntryOutcome.SAVED if entry.fingerprint in fresh else EntryOutcome.REINFORCED
        fresh.discard(entry.fingerprint)
        yield EntryResult(
            position=entry.position,
            outcome=outcome,
            memory_id=row.memory_id,
            echo=recalled.is_echo(save.event, entry.fingerprint) or None,
            held_for=row.quarantine_reason,
        )


def _finished(save: _Save, results: tuple[EntryResult, ...]) -> FinishedRun:
    event, now = save.event, datetime.now(UTC)
    outcomes = [result.outcome for result in results]
    output = SaveOutput(
        saved=outcomes.count(EntryOutcome.SAVED),
        skipped=outcomes.count(EntryOutcome.SKIPPED),
        reinforced=outcomes.count(EntryOutcome.REINFORCED),
        skipped_reason=save.skip,
        results=results,
        session_uuid=event.session_uuid,
        agent_config_uuid=event.agent_config_uuid,
        organization_uuid=event.organization_uuid,
    )
    return FinishedRun(
        organization_uuid=event.organization_uuid,
        id=event.event_id,
        type=WorkflowType.MEMORY_SAVE,
        state_name=State.COMPLETED,
        state_data=output.model_dump_json(exclude_none=True),
        agent_config_uuid=event.agent_config_uuid,
        session_uuid=event.session_uuid,
        created_at=event.occurred_at,
        finished_at=now,
        steps=(Step(State.RUN, now), Step(State.COMPLETED, now)),
    )


async def _prunes(connection: Connection, upserted: Sequence[Upserted]) -> tuple[PruneRequested, ...]:
    """Count what is new; whoever passes its cap by it is asked to be pruned."""
    added = Counter(_pair_of(row.scope) for row in upserted if row.adds_memory)
    counters = await memories.add_to_counters(connection, added)
    now = datetime.now(UTC)
    return tuple(
        PruneRequested(
            event_id=uuid4(),
            occurred_at=now,
            organization_uuid=counter.pair[0],
            agent_config_uuid=counter.pair[1],
        )
        for counter in counters
        if counter.entry_count > counter.max_entries
    )


def _changes(saves: Sequence[_Save], results: Sequence[tuple[EntryResult, ...]]) -> Iterator[MemoryChanged]:
    """What the live tail is told, per agent config and kind: it adds up to what the runs say became memory.

    What is held back is no memory yet; it is told as saved when it is released.
    """
    times: dict[tuple[ConfigPair, ChangeKind], Counter[UUID]] = {}
    for save, of_save in zip(saves, results, strict=True):
        for outcome, kind in _KINDS.items():
            ids = [
                result.memory_id
                for result in of_save
                if result.outcome is outcome and result.memory_id is not None and result.held_for is None
            ]
            if ids:
                times.setdefault((_pair(save.event), kind), Counter()).update(ids)
    for (pair, kind), of_kind in times.items():
        yield from memory_changed(pair, kind, of_kind)


def _source(event: SaveRequested, text: str) -> EntrySource:
    provenance = event.provenance
    return EntrySource(
        origin=event.origin,
        session_uuid=event.session_uuid,
        provenance=None if provenance is None else provenance.model_dump_json(exclude_none=True),
        quarantine_reason=held_for(event, text),
    )


def _principal(event: SaveRequested) -> str | None:
    """Whose memory this becomes: whom the sender named, else the caller; never the shared pool by omission."""
    if event.principal_ref is not None:
        return event.principal_ref
    writable = write_scope(event.caller.resolve())
    if writable is None:
        raise AssertionError("the gate lets no unidentified end user through")
    return writable.principal_ref


def _pair(event: SaveRequested) -> ConfigPair:
    return (event.organization_uuid, event.agent_config_uuid)


def _pair_of(scope: MemoryScope) -> ConfigPair:
    return (scope.organization_uuid, scope.agent_config_uuid)


def _run_key(event: SaveRequested) -> RunKey:
    return (event.organization_uuid, event.event_id)
