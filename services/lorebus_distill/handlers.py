"""What a session's end starts: a distill that is due now, or a finished run that says why there is none.

The rule that must not break: a session is distilled once, whoever says how often that it ended; and no model is called
here, or the consumer would leave its group while it waits.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from lorebus_contracts.events import Event, SessionEnded
from lorebus_contracts.workflows import DistillOutput
from lorebus_domain.distilling import DistillSkip, distill_gate
from lorebus_kit.erased import erased_events
from lorebus_kit.run_ids import distill_run_id
from lorebus_kit.session_facts import refusals
from lorebus_kit.tracing import traceparent_of
from lorebus_kit.verdicts import Applied, Duplicate, Skipped, Verdict
from lorebus_store import leases, settings
from lorebus_store.database import Connection
from lorebus_store.leases import DistillStart
from lorebus_store.locks import ConfigPair
from lorebus_store.run_rows import RunKey
from lorebus_store.settings import ScopeSettings


async def on_session_ended(connection: Connection, events: Sequence[Event]) -> Sequence[Verdict]:
    """Start the distills of a batch; one verdict an event."""
    ended = [event for event in events if isinstance(event, SessionEnded)]
    erased = await erased_events(connection, ended)
    known = await settings.load_settings(connection, {_pair(event) for event in ended})
    refused = await refusals(connection, ended, known, erased=erased)
    starts: dict[RunKey, DistillStart] = {}
    skips: dict[RunKey, DistillSkip | None] = {}
    for event, refusal in zip(ended, refused, strict=True):
        key = _run_key(event)
        if refusal is None and key not in starts:
            skips[key] = _gate(event, known[_pair(event)], is_erased=event.event_id in erased)
            starts[key] = _start(event, skips[key])
    started = await leases.start_distills(connection, tuple(starts.values()))
    verdicts: list[Verdict] = []
    for event, refusal in zip(ended, refused, strict=True):
        key = _run_key(event)
        if refusal is not None:
            verdicts.append(refusal)
        elif key in started:
            started.discard(key)
            skip = skips[key]
            verdicts.append(Applied() if skip is None else Skipped(skip.value))
        else:
            verdicts.append(Duplicate())
    return verdicts


def run_id_of(event: Event) -> UUID:
    """The id of a session's distill.

    Raises:
        TypeError: the event is not the end of a session.
    """
    if not isinstance(event, SessionEnded):
        raise TypeError(f"a distill follows a session's end, not {type(event).__name__}")
    return distill_run_id(event.session_uuid)


def _gate(event: SessionEnded, scope: ScopeSettings, *, is_erased: bool) -> DistillSkip | None:
    if scope.organization is None or scope.config is None:
        return DistillSkip.UNKNOWN_AGENT_CONFIG
    if is_erased:
        return DistillSkip.ERASED
    return distill_gate(
        organization_enabled=scope.organization.memory_enabled,
        config_enabled=scope.config.memory_enabled,
        write_enabled=scope.config.memory_write_enabled,
        outcome=event.outcome,
        step_count=event.step_count,
        caller=event.caller.resolve(),
    )


def _start(event: SessionEnded, skip: DistillSkip | None) -> DistillStart:
    return DistillStart(
        organization_uuid=event.organization_uuid,
        id=distill_run_id(event.session_uuid),
        agent_config_uuid=event.agent_config_uuid,
        session_uuid=event.session_uuid,
        created_at=event.occurred_at,
        at=datetime.now(UTC),
        pending_input=None if skip is not None else event.model_dump_json().encode(),
        state_data=DistillOutput(skipped_reason=skip).model_dump_json(exclude_none=True),
        traceparent=traceparent_of(event.event_id),
    )


def _pair(event: SessionEnded) -> ConfigPair:
    return (event.organization_uuid, event.agent_config_uuid)


def _run_key(event: SessionEnded) -> RunKey:
    return (event.organization_uuid, distill_run_id(event.session_uuid))
