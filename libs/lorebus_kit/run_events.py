"""The event that a run came from, looked for on the bus: among the dead letters first, then in its topic.

The rule that must not break: an event is a run's own only by the id that makes the run idempotent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from lorebus_contracts.events import Event, PruneRequested, SaveRequested, SessionEnded
from lorebus_contracts.topics import DISTILL_GROUP, PRUNE_GROUP, SAVE_GROUP
from lorebus_contracts.wire import WireError, parse
from lorebus_contracts.workflows import WorkflowType
from lorebus_kit.cluster import partitions_of
from lorebus_kit.letter_box import find_letters
from lorebus_kit.letters import DeadTopic, Letter
from lorebus_kit.run_ids import distill_run_id
from lorebus_kit.whole_topics import read_all
from lorebus_store.run_rows import Run

_SOURCES: Final[Mapping[WorkflowType, tuple[type[Event], str]]] = {
    WorkflowType.MEMORY_SAVE: (SaveRequested, SAVE_GROUP),
    WorkflowType.MEMORY_DISTILL: (SessionEnded, DISTILL_GROUP),
    WorkflowType.MEMORY_PRUNE: (PruneRequested, PRUNE_GROUP),
}


@dataclass(frozen=True, slots=True)
class RunEvent:
    """A run's event, its exact bytes, and its dead letter where it was found there."""

    event: Event
    value: bytes
    letter: Letter | None


async def event_of_run(bootstrap_servers: str, run: Run, *, prefix: str = "") -> RunEvent | None:
    """The run's event; None where the bus has it no more, or not in a form that can be read.

    Raises:
        BrokerAwayError: the broker does not answer.
    """
    model, group = _SOURCES[run.type]
    dead = DeadTopic(model.topic, group)
    found = await find_letters(
        bootstrap_servers,
        prefix=prefix,
        topics=(dead,),
        wanted=lambda letter: letter.event is not None and _is_of(letter.event, run),
        with_handled=True,
        most=1,
    )
    for one in found.letters:
        if one.letter.event is not None and one.letter.value is not None:
            return RunEvent(one.letter.event, one.letter.value, one.letter)
    return await _in_topic(bootstrap_servers, run, model, prefix)


def run_of_letter(letter: Letter) -> UUID | None:
    """The id of the run that the record would carry out; None where it carries out none, or cannot be read."""
    carries_out = (letter.dead.origin, letter.dead.group) in {
        (model.topic, group) for model, group in _SOURCES.values()
    }
    return None if letter.event is None or not carries_out else _run_id(letter.event)


async def _in_topic(servers: str, run: Run, model: type[Event], prefix: str) -> RunEvent | None:
    name = str(run.session_uuid if model is SessionEnded else run.id).encode()
    there = (await partitions_of(servers)).get(prefix + model.topic.name, ())
    async with read_all(servers, dict.fromkeys(there, model)) as records:
        async for _, record in records:
            event = _parsed(model, record.value or b"", name)
            if event is not None and _is_of(event, run):
                return RunEvent(event, record.value, None)
    return None


def _parsed(model: type[Event], value: bytes, name: bytes) -> Event | None:
    """The event, if it holds the name and can be read: most of a topic is passed over without reading it."""
    if name not in value:
        return None
    try:
        return parse(model, value)
    except WireError:
        return None


def _is_of(event: Event, run: Run) -> bool:
    return event.organization_uuid == run.organization_uuid and _run_id(event) == run.id


def _run_id(event: Event) -> UUID:
    return distill_run_id(event.session_uuid) if isinstance(event, SessionEnded) else event.event_id
