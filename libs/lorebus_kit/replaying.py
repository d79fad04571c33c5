"""Sending dead letters again to the topic that they came from, and setting them aside for good.

The rules that must not break:
- Nothing of a subject that was erased goes on the bus again, and nothing that no consumer could read.
- Nothing is replayed only to be lost: an event of an agent config that nobody has made known completes without effect.
- A letter is marked as replayed only once the broker has its record; in between, it may be replayed twice, which its
  event_id makes harmless.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lorebus_contracts.events import Event
from lorebus_kit.bus import Record
from lorebus_kit.dead_letters import HEADER_PREFIX
from lorebus_kit.erased import erased_events
from lorebus_kit.letters import Handled, Letter, header_fault, mark_record
from lorebus_kit.subscription import Publisher, Transactions
from lorebus_store import settings
from lorebus_store.acting import Tenants
from lorebus_store.errors import TransientError
from lorebus_store.locks import ConfigPair

REPLAYED_FROM: Final = HEADER_PREFIX + "replayed-from"
"""Header of a replayed record: the place of its letter. Should it be set aside again, the letter keeps it."""


class Refusal(StrEnum):
    """Why a letter is not replayed."""

    ERASED = "erased"
    UNKNOWN_CONFIG = "unknown_config"
    UNREADABLE = "unreadable"
    BAD_HEADER = "bad_header"


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to become of a letter: replayed, or (with why) not."""

    letter: Letter
    refusal: Refusal | None


async def decide(letters: Sequence[Letter], database: Transactions) -> tuple[Decision, ...]:
    """For each letter whether it may be replayed.

    Raises:
        TransientError: the database is away, so that nobody can say who was erased.
    """
    events = [letter.event for letter in letters if letter.event is not None]
    tenants = Tenants.of_all(event.organization_uuid for event in events)
    async with database.begin(tenants) as connection:
        erased = await erased_events(connection, events)
        known = await settings.load_settings(connection, {_pair(event) for event in events})
    lost = {
        event.event_id
        for event in events
        if known[_pair(event)].organization_known and not known[_pair(event)].config_known
    }
    return tuple(
        Decision(
            letter, _refusal(letter, is_erased=letter.event_id in erased, is_lost=letter.event_id in lost)
        )
        for letter in letters
    )


def replayed_record(letter: Letter) -> Record:
    """The record that a letter was, with one more header that says where it has been."""
    return Record(
        topic=letter.dead.origin.name,
        key=letter.key,
        value=letter.value,
        headers=[*letter.headers, (REPLAYED_FROM, str(letter.place).encode())],
    )


async def replay(letters: Sequence[Letter], bus: Publisher) -> tuple[TransientError | None, ...]:
    """Publish each letter to its origin and mark it; for each None, or why that is not confirmed."""
    published = await bus.publish_all([replayed_record(letter) for letter in letters])
    done = [letter for letter, error in zip(letters, published, strict=True) if error is None]
    marked = iter(await mark(done, Handled.REPLAYED, bus))
    return tuple(error or next(marked) for error in published)


async def mark(
    letters: Sequence[Letter], handled: Handled, bus: Publisher
) -> tuple[TransientError | None, ...]:
    """Mark letters as handled; for each None, or why that is not confirmed."""
    return tuple(await bus.publish_all([mark_record(letter.place, handled) for letter in letters]))


def _pair(event: Event) -> ConfigPair:
    return (event.organization_uuid, event.agent_config_uuid)


def _refusal(letter: Letter, *, is_erased: bool, is_lost: bool) -> Refusal | None:
    if is_erased:
        return Refusal.ERASED
    if letter.event is None:
        return Refusal.UNREADABLE
    if header_fault(letter.headers):
        return Refusal.BAD_HEADER
    return Refusal.UNKNOWN_CONFIG if is_lost else None
