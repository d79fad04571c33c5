"""Saving: each accepted entry is kept once or counted as one more confirmation, whatever is delivered how often.

The rule that must not break: entries, counters, runs and what follows from them are one transaction.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final
from uuid import UUID, uuid4

from uuid6 import uuid7

from lorebus_contracts.events import (
    ChangeKind,
    Event,
    MemoryChanged,
    Origin,
    PruneRequested,
    SaveRequested,
)
from lorebus_contracts.workflows import EntryOutcome, EntryResult, SaveOutput, State, WorkflowType
from lorebus_domain.saving import Entry, KeptEntry, SavePlan, SaveSkip, fold, plan_save, save_gate
from lorebus_domain.visibility import MemoryScope, write_scope
from lorebus_kit.emitting import memory_changed, outbox_row
from lorebus_kit.erased import erased_events
from lorebus_kit.verdicts import UNKNOWN_ORGANIZATION, Applied, Duplicate, Rejected, Skipped, Verdict
from lorebus_save import lessons
from lorebus_save.lessons import KeptLesson, Recalled, held_for
from lorebus_store import memories, outbox, runs, settings
from lorebus_store.database import Connection
from lorebus_store.errors import TransientError
from lorebus_store.locks import ConfigPair
from lorebus_store.memories import EntrySource, Upserted
from lorebus_store.run_rows import FinishedRun, RunKey, Step
from lorebus_store.settings import ScopeSettings

_NOTHING: Final = SavePlan((), ())
_KINDS: Final = {
    EntryOutcome.SAVED: ChangeKind.SAVED,
    EntryOutcome.REINFORCED: ChangeKind.REINFORCED,
}


@dataclass(frozen=True, slots=True)
class _Save:
    """One event on its way: why it writes nothing, or its plan and the scope it goes to."""

    event: SaveRequested
    skip: SaveSkip | None
    plan: SavePlan = _NOTHING

    @property
    def scope(self) -> MemoryScope:
        event = self.event
        return MemoryScope(event.organization_uuid, event.agent_config_uuid, _principal(event))


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
    return _Save(event, None, plan_save([Entry(entry.text, entry.importance) for entry in event.entries]))


async def _store(connection: Connection, saves: Sequence[_Save]) -> None:
    """Entries first, then the runs that tell of them, then counters and what follows."""
    if not saves:
        return
    recalled = await lessons.recalled_by(connection, [save.event for save in saves])
    upserted = await _upsert(connection, saves, recalled)
    rows = {(row.scope, row.fingerprint): row for row in upserted}
    results = _results(saves, rows, recalled)
    finished = [_finished(save, of_save) for save, of_save in zip(saves, results, strict=True)]
    claimed = await runs.record_finished(connection, finished)
    if len(claimed) < len(finished):
        raise TransientError("another consumer has just done a part of this batch; it is tried again")
    await lessons.leave_evidence(connection, _distilled(saves), rows, recalled)
    follow = (*_changes(saves, results), *await _prunes(connection, upserted))
    await outbox.add(connection, [outbox_row(event) for event in follow])


async def _upsert(connection: Connection, saves: Sequence[_Save], recalled: Recalled) -> tuple[Upserted, ...]:
    source_of: dict[tuple[MemoryScope, bytes], EntrySource] = {}
    echoes: Counter[tuple[MemoryScope, bytes]] = Counter()
    kept: list[tuple[MemoryScope, KeptEntry]] = []
    for save in saves:
        for entry in save.plan.kept:
            key = (save.scope, entry.fingerprint)
            kept.append((save.scope, entry))
            echoes[key] += recalled.is_echo(save.event, entry.fingerprint)
            if key not in source_of:
                source_of[key] = _source(save.event, entry.text)
    if not kept:
        return ()
    folded = fold(kept)
    await memories.share_configs(connection, {_pair(save.event) for save in saves if save.plan.kept})
    # Ids follow the order of the request, so that of two entries of one time the later one is the newer.
    position = {key: place for place, key in enumerate(source_of)}
    ids = sorted(uuid7() for _ in folded)
    return await memories.upsert_reinforcing(
        connection,
        folded,
        ids=[ids[position[entry.scope, entry.fingerprint]] for entry in folded],
        sources=[
            replace(source_of[entry.scope, entry.fingerprint], echoes=echoes[entry.scope, entry.fingerprint])
            for entry in folded
        ],
    )


def _distilled(saves: Sequence[_Save]) -> tuple[KeptLesson, ...]:
    return tuple(
        KeptLesson(save.event, save.scope, entry)
        for save in saves
        if save.event.origin is Origin.DISTILL
        for entry in save.plan.kept
    )


def _results(
    saves: Sequence[_Save], rows: Mapping[tuple[MemoryScope, bytes], Upserted], recalled: Recalled
) -> tuple[tuple[EntryResult, ...], ...]:
    """Per save what became of each entry: the first occurrence of a new text is saved, each other reinforced."""
    fresh = {key for key, row in rows.items() if row.inserted}
    results = []
    for save in saves:
        found = [
            EntryResult(position=s.position, outcome=EntryOutcome.SKIPPED, reason=s.reason)
            for s in save.plan.skipped
        ]
        for entry in save.plan.kept:
            key = (save.scope, entry.fingerprint)
            outcome = EntryOutcome.SAVED if key in fresh else EntryOutcome.REINFORCED
            fresh.discard(key)
            found.append(
                EntryResult(
                    position=entry.position,
                    outcome=outcome,
                    memory_id=rows[key].memory_id,
                    echo=recalled.is_echo(save.event, entry.fingerprint) or None,
                    held_for=rows[key].quarantine_reason,
                )
            )
        results.append(tuple(sorted(found, key=lambda result: result.position)))
    return tuple(results)


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
        for result in of_save:
            if result.memory_id is not None and result.held_for is None:
                kind = _KINDS[result.outcome]
                times.setdefault((_pair(save.event), kind), Counter())[result.memory_id] += 1
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
