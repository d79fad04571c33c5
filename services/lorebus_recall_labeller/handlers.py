"""Recording recalls and labelling them with how their session ended.

The rule that must not break: labels are order-free. A session's outcome and its rating are kept apart, each the
later one by (occurred_at, event_id); a recall's label follows from its session, whichever came first.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar
from uuid import UUID

from lorebus_contracts.events import (
    ChangeKind,
    Event,
    MemoryChanged,
    RecallRecorded,
    SessionEnded,
    SessionRated,
)
from lorebus_domain.labelling import label_of_outcome
from lorebus_kit.emitting import memory_changed, outbox_row
from lorebus_kit.erased import SKIPPED, erased_events
from lorebus_kit.session_facts import refusals
from lorebus_kit.verdicts import UNKNOWN_AGENT_CONFIG, Applied, Duplicate, Skipped, Verdict
from lorebus_store import inbox, outbox, recalls, sessions, settings
from lorebus_store.database import Connection
from lorebus_store.locks import ConfigPair
from lorebus_store.recalls import EntryColumns, HandedOut, RecordedRecall
from lorebus_store.sessions import ChangedSession, SessionOutcome, SessionRating

CONSUMER: Final = "recall-labeller"
_EventT = TypeVar("_EventT", bound=Event)


async def on_session_events(connection: Connection, events: Sequence[Event]) -> Sequence[Verdict]:
    """Record the recalls of a batch, count what they handed out, keep outcomes and ratings; one verdict an event."""
    told = [event for event in events if isinstance(event, SessionEnded | SessionRated | RecallRecorded)]
    erased = await erased_events(connection, told)
    known = await settings.load_settings(connection, {_pair(event) for event in told})
    refused = await refusals(connection, told, known, erased=erased)
    writable = [
        event
        for event, refusal in zip(told, refused, strict=True)
        if refusal is None and known[_pair(event)].config_known and event.event_id not in erased
    ]
    claimed = await inbox.claim_events(
        connection, CONSUMER, [(event.organization_uuid, event.event_id) for event in writable]
    )
    verdicts: list[Verdict] = []
    due: list[Event] = []
    for event, refusal in zip(told, refused, strict=True):
        key = (event.organization_uuid, event.event_id)
        if refusal is not None:
            verdicts.append(refusal)
        elif event.event_id in erased:
            verdicts.append(SKIPPED)
        elif not known[_pair(event)].config_known:
            verdicts.append(Skipped(UNKNOWN_AGENT_CONFIG))
        elif key in claimed:
            claimed.discard(key)
            verdicts.append(Applied())
            due.append(event)
        else:
            verdicts.append(Duplicate())
    await _store(connection, due)
    return verdicts


async def _store(connection: Connection, due: Sequence[Event]) -> None:
    ended, rated, recalled = _of(due, SessionEnded), _of(due, SessionRated), _of(due, RecallRecorded)
    by_end = await sessions.apply_outcomes(connection, [_outcome(event) for event in ended])
    by_rating = await sessions.apply_ratings(connection, [_rating(event) for event in rated])
    await recalls.record(connection, [_recall(event) for event in recalled])
    labelled = [*filter(_is_label, by_end), *by_rating]
    await outbox.add(connection, [outbox_row(change) for change in _changes(labelled)])


def _is_label(ended: ChangedSession) -> bool:
    """Whether a session's end decides its label: not where it was rated, nor for an end that is no label."""
    return ended.quality_score is None and label_of_outcome(ended.outcome or "") is not None


def _changes(labelled: Iterable[ChangedSession]) -> Iterator[MemoryChanged]:
    """What the live tail is told: the sessions whose recalls have a label now, an event an agent config."""
    by_config: dict[ConfigPair, dict[UUID, int]] = {}
    for session in labelled:
        pair = (session.organization_uuid, session.agent_config_uuid)
        by_config.setdefault(pair, {})[session.session_uuid] = 1
    for pair, times in by_config.items():
        yield from memory_changed(pair, ChangeKind.LABELLED, times)


def _outcome(event: SessionEnded) -> SessionOutcome:
    return SessionOutcome(
        organization_uuid=event.organization_uuid,
        session_uuid=event.session_uuid,
        agent_config_uuid=event.agent_config_uuid,
        outcome=event.outcome,
        occurred_at=event.occurred_at,
        event_id=event.event_id,
    )


def _rating(event: SessionRated) -> SessionRating:
    return SessionRating(
        organization_uuid=event.organization_uuid,
        session_uuid=event.session_uuid,
        agent_config_uuid=event.agent_config_uuid,
        quality_score=event.quality_score,
        occurred_at=event.occurred_at,
        event_id=event.event_id,
    )


def _recall(event: RecallRecorded) -> RecordedRecall:
    return RecordedRecall(
        organization_uuid=event.organization_uuid,
        recall_id=event.event_id,
        pack_id=event.pack_id,
        session_uuid=event.session_uuid,
        agent_config_uuid=event.agent_config_uuid,
        caller_kind=event.caller.kind,
        principal_ref=event.caller.principal_ref(),
        requested_strategy=event.requested_strategy,
        strategy=event.strategy,
        cue=event.cue,
        top_k=event.top_k,
        budget_used_chars=event.budget_used_chars,
        occurred_at=event.occurred_at,
        entries=_handed_out(event),
        passed_over=_passed_over(event),
    )


def _handed_out(event: RecallRecorded) -> EntryColumns:
    """What was handed out, told as columns or one by one."""
    columns = event.handed_out
    if columns is None:
        return EntryColumns.of(
            HandedOut(e.memory_id, e.rank, e.importance, e.score, e.relevance, e.recency)
            for e in event.entries
        )
    return EntryColumns.ranked(columns.ids(), columns.importance_values(), columns.part_values())


def _passed_over(event: RecallRecorded) -> str:
    """What was left out, as it was told: columns are kept as columns."""
    if event.left_out is not None:
        return event.left_out.model_dump_json()
    return json.dumps([entry.model_dump(mode="json") for entry in event.passed_over])


def _of(events: Iterable[Event], kind: type[_EventT]) -> list[_EventT]:
    return [event for event in events if isinstance(event, kind)]


def _pair(event: Event) -> ConfigPair:
    return (event.organization_uuid, event.agent_config_uuid)
