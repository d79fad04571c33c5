"""Pruning: an agent config loses its lowest entries until it holds at most its cap.

The rule that must not break: what a run says it deleted and left is exact, beside saves and after redelivery.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from lorebus_contracts.events import ChangeKind, Event, PruneRequested
from lorebus_contracts.workflows import PruneOutput, State, WorkflowType
from lorebus_domain import policy
from lorebus_kit.emitting import memory_changed, outbox_row
from lorebus_kit.verdicts import (
    UNKNOWN_AGENT_CONFIG,
    UNKNOWN_ORGANIZATION,
    Applied,
    Duplicate,
    Rejected,
    Skipped,
    Verdict,
)
from lorebus_store import memories, outbox, runs, settings
from lorebus_store.database import Connection
from lorebus_store.errors import TransientError
from lorebus_store.locks import ConfigPair, lock_order, share_organizations
from lorebus_store.run_rows import FinishedRun, RunKey, Step


async def on_prune_requested(connection: Connection, events: Sequence[Event]) -> Sequence[Verdict]:
    """Prune each config that a batch names; one verdict an event."""
    requests = [event for event in events if isinstance(event, PruneRequested)]
    # Locks of organizations come before any of an agent config (`lorebus_store.locks`).
    await share_organizations(connection, {event.organization_uuid for event in requests})
    known = await settings.load_settings(connection, {_pair(event) for event in requests})
    done = await runs.known_runs(connection, [_run_key(event) for event in requests])
    verdicts: list[Verdict] = []
    due: dict[RunKey, PruneRequested] = {}
    finished: list[FinishedRun] = []
    for event in requests:
        scope = known[_pair(event)]
        if not scope.organization_known:
            verdicts.append(Rejected(UNKNOWN_ORGANIZATION))
        elif done.get(_run_key(event)) == State.COMPLETED or _run_key(event) in due:
            verdicts.append(Duplicate())
        elif scope.config is None:
            verdicts.append(Skipped(UNKNOWN_AGENT_CONFIG))
            finished.append(_finished(event, PruneOutput(skipped_reason=UNKNOWN_AGENT_CONFIG)))
        else:
            verdicts.append(Applied())
            due[_run_key(event)] = event
    # Locks are taken in the order in which savers take theirs, so that neither waits for the other in a circle.
    in_order = sorted(due.values(), key=lambda event: lock_order(_pair(event)))
    finished += [_finished(event, await _prune(connection, event)) for event in in_order]
    if len(await runs.record_finished(connection, finished)) < len(finished):
        raise TransientError("another consumer has just done a part of this batch; it is tried again")
    return verdicts


async def _prune(connection: Connection, event: PruneRequested) -> PruneOutput:
    pair = _pair(event)
    await memories.lock_config(connection, pair)
    config = await settings.get_agent_config(connection, *pair)
    if config is None:
        raise AssertionError("a known agent config is never taken away")
    keep = config.memory_max_entries if event.max_entries is None else event.max_entries
    deleted = await memories.prune_lowest(connection, pair, keep=keep, chunk=policy.PRUNE_CHUNK)
    left = await settings.get_agent_config(connection, *pair)
    changes = memory_changed(pair, ChangeKind.PRUNED, dict.fromkeys(deleted, 1))
    await outbox.add(connection, [outbox_row(change) for change in changes])
    return PruneOutput(deleted=len(deleted), remaining=0 if left is None else left.entry_count)


def _finished(event: PruneRequested, output: PruneOutput) -> FinishedRun:
    now = datetime.now(UTC)
    return FinishedRun(
        organization_uuid=event.organization_uuid,
        id=event.event_id,
        type=WorkflowType.MEMORY_PRUNE,
        state_name=State.COMPLETED,
        state_data=output.model_dump_json(exclude_none=True),
        agent_config_uuid=event.agent_config_uuid,
        session_uuid=None,
        created_at=event.occurred_at,
        finished_at=now,
        steps=(Step(State.RUN, now), Step(State.COMPLETED, now)),
    )


def _pair(event: PruneRequested) -> ConfigPair:
    return (event.organization_uuid, event.agent_config_uuid)


def _run_key(event: PruneRequested) -> RunKey:
    return (event.organization_uuid, event.event_id)
