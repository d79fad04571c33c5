"""The state machine: each example is a world of its own, each step a handful of operations at once.

The rule that must not break: a step draws nothing but numbers, so that a failing example shrinks to the few operations
that are needed for it.
"""

import asyncio
import uuid
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TypeVar

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from lorebus_kit.keys import create_key
from lorebus_store.database import Database
from tests.isolation import organization_operations as organizations
from tests.isolation import sweep
from tests.isolation.bus import Bus
from tests.isolation.canaries import Leak, Ledger
from tests.isolation.cast import cast
from tests.isolation.http_client import HttpClient
from tests.isolation.operations import perform
from tests.isolation.stage import Stage
from tests.isolation.tally import Tally
from tests.isolation.world import Draw, Organization, World

ORGANIZATIONS: Final = 3
AT_ONCE: Final = 40
STEPS: Final = 10
EXAMPLE: Final = AT_ONCE * STEPS
"""Operations that an example draws."""

EXAMPLES_A_ROUND: Final = 25
"""hypothesis remembers all that a round drew, which of a million operations would be too much."""
SHOWN: Final = 3
LEAST_EXAMPLES: Final = 3
"""The first example of a round is the simplest one, in which nothing is done."""

ResultT = TypeVar("ResultT")
numbers = st.lists(st.integers(0, Draw.LARGEST), min_size=AT_ONCE, max_size=AT_ONCE)


@dataclass(slots=True)
class Driver:
    """What all examples of a run share: the clients, their loop, the ledger and the tally."""

    stage: Stage
    stops_at_first_leak: bool = False
    only_organizations: bool = False
    """Only what crosses organizations counts, because nothing else is held."""

    ledger: Ledger = field(default_factory=Ledger)
    tally: Tally = field(default_factory=Tally)
    _loop: asyncio.Runner = field(default_factory=asyncio.Runner)
    _bus: Bus | None = None
    _client: HttpClient | None = None
    _database: Database | None = None

    def __enter__(self) -> Self:
        self._bus = Bus(self.stage.bootstrap_servers, self.stage.topic_prefix)
        self._client = HttpClient(self.stage.gateway_url)
        self._database = Database(self.stage.database_url, pool_size=1, application_name="lorebus-tests")
        self.wait(self._bus.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._bus is not None
        assert self._client is not None
        assert self._database is not None
        self._client.close()
        self.wait(self._bus.__aexit__(kind, error, trace))
        self.wait(self._database.dispose())
        self._loop.close()

    def wait(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Let the loop run until the work is done."""
        return self._loop.run(work)

    @property
    def is_over(self) -> bool:
        """Whether what was looked for has been found."""
        return self.stops_at_first_leak and any(leak.shows_text for leak in self.tally.foreign)

    @property
    def found(self) -> Sequence[Leak | str]:
        """All that must not be and counts here."""
        return self.tally.foreign if self.only_organizations else self.tally.findings

    async def new_world(self, cast_number: int) -> World:
        """Fresh organizations with keys, known agent configs and the rules as their model."""
        assert self._bus is not None
        assert self._client is not None
        assert self._database is not None
        made = []
        for index in range(ORGANIZATIONS):
            organization = uuid.uuid4()
            key = await create_key(self._database, organization, name="isolation")
            made.append(Organization(index, str(organization), key))
        world = World(
            client=self._client,
            bus=self._bus,
            ledger=self.ledger,
            tally=self.tally,
            organizations=made,
            cast=cast(cast_number),
        )
        for one in made:
            await organizations.choose_rules(world, one)
            for place, config in enumerate(world.configs):
                await organizations.put_config(world, one, config, Draw(cast_number + place))
        return world


class IsolationMachine(RuleBasedStateMachine):
    """Organizations that share every id, driven at random; whatever they are answered is looked at."""

    driver: ClassVar[Driver]

    def __init__(self) -> None:
        super().__init__()
        self._world: World | None = None
        self._feeds: list[sweep.Feed] = []
        self._found_before = len(self.driver.found)

    @initialize(cast_number=st.integers(0, 1000))
    def begin(self, cast_number: int) -> None:
        self._world = self.driver.wait(self.driver.new_world(cast_number))
        self._feeds = self.driver.wait(sweep.follow_all(self._world))

    @rule(drawn=numbers)
    def do(self, drawn: list[int]) -> None:
        world = self._world
        if world is not None and not self.driver.is_over:
            self.driver.wait(_all_of(world, drawn))
            self._complain()

    def teardown(self) -> None:
        if self._world is None:
            return
        try:
            if not self.driver.is_over:
                self.driver.wait(sweep.look_at_everything(self._world))
                self._complain()
        finally:
            self.driver.wait(sweep.leave(self._feeds))

    def _complain(self) -> None:
        """Fail here, so that the example shrinks to what led to it."""
        if not self.driver.stops_at_first_leak:
            # Examples that come later, in which this one shrinks, are judged by what they find themselves.
            found = self.driver.found[self._found_before :]
            assert not found, found[:SHOWN]


async def _all_of(world: World, drawn: list[int]) -> None:
    await asyncio.gather(*(perform(world, number) for number in drawn))


def run(driver: Driver, *, operations: int, seed_number: int) -> None:
    """Draw examples until so many operations have been done, or a leak shows where that is what is looked for.

    What was found is in the tally. Processes do not do the same twice to the millisecond: where hypothesis cannot
    make it happen again it says so, which is no reason to forget it.
    """
    while driver.tally.done < operations and not driver.is_over:
        left = operations - driver.tally.done
        examples = min(EXAMPLES_A_ROUND, max(LEAST_EXAMPLES, left // EXAMPLE))
        try:
            _one_round(driver, examples=examples, seed_number=seed_number)
        except Flaky:
            if not driver.found:
                raise
            return
        seed_number += 1


def _one_round(driver: Driver, *, examples: int, seed_number: int) -> None:
    class Machine(IsolationMachine):
        pass

    Machine.driver = driver
    run_state_machine_as_test(
        seed(seed_number)(Machine),
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            phases=(Phase.generate,) if driver.stops_at_first_leak else (Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        ),
    )
