"""What every consumer must do with poison among sound records, said once."""

from aiokafka import ConsumerRecord

from lorebus_contracts.events import Event
from tests.support.poison import MARKED_NAME, UNDECODABLE_NAME, Poison, poison_of, send_poison
from tests.support.wire import Wire


async def send_among_poison(wire: Wire, *sound: Event, group: str) -> None:
    """Publish each bad record there is, all keyed by the group and on one partition, and sound ones between them."""
    first = sound[0]
    for place, poison in enumerate(poison_of(first.model_dump_json().encode())):
        await send_poison(wire, first.topic, poison, key=group.encode(), partition=0)
        if place < len(sound):
            await wire.send(sound[place], partition=0)


def assert_set_aside(letters: list[ConsumerRecord], first: Event, *, origin: str, group: str) -> None:
    """Each bad record, and nothing else, is a dead letter with its own bytes, key and headers and with its origin."""
    poison = poison_of(first.model_dump_json().encode())
    ours = {_told(letter, "origin-offset"): letter for letter in letters if letter.key == group.encode()}
    assert len(ours) == len(letters) == len(poison)
    in_order = [ours[offset] for offset in sorted(ours, key=int)]
    for bad, letter in zip(poison, in_order, strict=True):
        assert letter.value == bad.value, bad.name
        assert [header for header in letter.headers if not header[0].startswith("lorebus-")] == _kept(bad)
        assert _told(letter, "error-type") == bad.error_type, bad.name
        assert _told(letter, "origin-topic") == origin
        assert _told(letter, "origin-partition") == "0"
        assert _told(letter, "origin-group") == group
    assert [_told(letter, "undecodable-header-names") for letter in in_order if _lost(letter)] == [
        UNDECODABLE_NAME.hex()
    ]


def _kept(bad: Poison) -> list[tuple[str, bytes | None]]:
    return [header for header in bad.headers if header[0] != MARKED_NAME]


def _lost(letter: ConsumerRecord) -> bool:
    return any(name == "lorebus-undecodable-header-names" for name, _ in letter.headers)


def _told(letter: ConsumerRecord, name: str) -> str:
    told: bytes = dict(letter.headers)[f"lorebus-{name}"]
    return told.decode()
