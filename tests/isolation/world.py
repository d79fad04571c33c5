"""One example's world: organizations that share every id they can choose, and what each of them has been told."""

import uuid
from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from tests.isolation.bus import Bus
from tests.isolation.canaries import Asker, Leak, Ledger, Owner
from tests.isolation.cast import Caller
from tests.isolation.http_client import Answer, HttpClient
from tests.isolation.tally import Tally

ItemT = TypeVar("ItemT")

SESSIONS: Final = 10
"""Sessions with tokens, in each organization; their ids are the same in all."""
SESSIONS_ON_THE_BUS: Final = 60
"""All sessions of which events tell, those with tokens among them."""
EVENT_IDS: Final = 12
REMEMBERED: Final = 60
_FIRST_ERROR: Final = 400
_UNAVAILABLE: Final = 503
_BITS: Final = 40
# Odd, so that no two numbers become the same one: small numbers, which are drawn most, become different operations.
_SPREAD: Final = 0x9E3779B97F4A7C15 | 1


class Draw:
    """The choices of one operation, all of which follow from one number."""

    LARGEST: Final = (1 << _BITS) - 1

    def __init__(self, number: int) -> None:
        self._rest = number * _SPREAD % (1 << _BITS)

    def below(self, end: int) -> int:
        """A number from 0 to `end` - 1."""
        self._rest, drawn = divmod(self._rest, end)
        return drawn

    def one_of(self, items: Sequence[ItemT]) -> ItemT:
        """One of these, which are not none."""
        return items[self.below(len(items))]

    def often(self) -> bool:
        """True three times of four."""
        return self.below(4) > 0


@dataclass(frozen=True, slots=True)
class Organization:
    """A tenant with its API key; `index` is its place among those of the world."""

    index: int
    uuid: str
    key: str

    @property
    def credentials(self) -> str:
        """Its `Authorization`."""
        return f"Bearer {self.key}"

    def asker(self, config: str | None = None) -> Asker:
        """The organization, perhaps with an eye to one agent config alone."""
        return Asker(self.uuid, config, "organization")


@dataclass(frozen=True, slots=True)
class Session:
    """A session of an organization; another one has a session of the same id, mostly of another caller."""

    organization: Organization
    uuid: str
    config: str
    caller: Caller

    @property
    def asker(self) -> Asker:
        """Whoever shows its token."""
        return Asker(self.organization.uuid, self.config, self.caller.kind, self.caller.ref)

    @property
    def owner(self) -> Owner:
        """Whose the texts are that the session brings."""
        return Owner(self.organization.uuid, self.config, self.caller.ref, self.caller.is_unresolved)


@dataclass(frozen=True, slots=True)
class Known:
    """An id that the server gave to one organization, and who may be answered about it."""

    organization: int
    id: str
    asker: Asker


class World:
    """What the operations of one example work on."""

    def __init__(
        self,
        *,
        client: HttpClient,
        bus: Bus,
        ledger: Ledger,
        tally: Tally,
        organizations: Sequence[Organization],
        cast: Sequence[Caller],
    ) -> None:
        self.bus = bus
        self.ledger = ledger
        self.tally = tally
        self.organizations = organizations
        self.cast = cast
        self.configs = (str(uuid.uuid4()), str(uuid.uuid4()))
        self.event_ids = [str(uuid.uuid4()) for _ in range(EVENT_IDS)]
        self.tokens: dict[tuple[int, str], str] = {}
        self.known: dict[str, deque[Known]] = defaultdict(lambda: deque(maxlen=REMEMBERED))
        self.client = client
        self._session_uuids = [str(uuid.uuid4()) for _ in range(SESSIONS_ON_THE_BUS)]

    def session(self, organization: Organization, index: int) -> Session:
        """The session of that number in that organization."""
        place = index + 2 * organization.index
        return Session(
            organization,
            self._session_uuids[index],
            self.configs[(index + organization.index) % len(self.configs)],
            self.cast[place % len(self.cast)],
        )

    def know(self, kind: str, organization: Organization, found: object, asker: Asker) -> None:
        """Remember an id, for anybody to ask about later."""
        if isinstance(found, str):
            self.known[kind].append(Known(organization.index, found, asker))

    def mint(self, owner: Owner) -> str:
        """A new canary."""
        return self.ledger.mint(owner)

    def expect(self, is_so: bool, what: str, answer: Answer) -> None:  # noqa: FBT001 - It reads as an assertion.
        """Note what was answered where something else had to be; no answer at all tells nobody anything."""
        if not is_so and answer.status != _UNAVAILABLE:
            self.tally.add([f"{what} is answered with {answer.status}"])

    async def ask(
        self,
        operation: str,
        asker: Asker,
        method: str,
        path: str,
        *,
        credentials: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        sent: Collection[str] = (),
    ) -> Answer:
        """Ask over HTTP, count it, and look at every byte of the answer."""
        answer = await self.client.ask(method, path, credentials=credentials, body=body, headers=headers)
        self.tally.operations[operation] += 1
        self.tally.statuses[answer.status] += 1
        own = self.look(operation, asker, answer.head + answer.body, sent={word.encode() for word in sent})
        if answer.status >= _FIRST_ERROR and self.ledger.found(answer.body):
            self.tally.add([f"{operation} is refused with {answer.status} and a text"])
        if operation in {"load", "recall over MCP", "start a load"}:
            self.tally.loads_with_own += bool(own)
        return answer

    def look(self, place: str, asker: Asker, told: bytes, *, sent: Collection[bytes] = ()) -> int:
        """Look for canaries, and for names of other organizations; gives how many of the asker's own there were."""
        found = self.ledger.found(told)
        leaks = self.ledger.leaks(place, asker, found, sent=sent)
        others = (one.uuid for one in self.organizations if one.uuid != asker.organization)
        named = [
            Leak(f"{place}: names it", asker, Owner(other, "", None))
            for other in others
            if other.encode() in told
        ]
        self.tally.add([*leaks, *named])
        self.tally.answers += 1
        self.tally.answered_bytes += len(told)
        own = len(found) - len(leaks) - len(found.intersection(sent))
        self.tally.own += own
        return own

    async def tell(self, operation: str, topic: str, key: str, event: Mapping[str, object]) -> None:
        """Publish an event, and count it."""
        await self.bus.publish(topic, key, event)
        self.tally.operations[operation] += 1
