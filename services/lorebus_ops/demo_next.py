"""The end of the demo: the next session of a user who came back, and what each strategy hands it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid5

from lorebus_contracts.events import SessionEnded
from lorebus_domain.recall import Strategy
from lorebus_ops.demo_ledger import Ledger, SessionStory
from lorebus_ops.demo_runtime import DemoRuntime

SHOWN_STRATEGIES: Final = (Strategy.LAST_K, Strategy.IMPORTANCE, Strategy.FULL, Strategy.PACK)


@dataclass(frozen=True, slots=True)
class NextSession:
    """A session that begins after the demo's; `last` is the same user's latest, `loads` are answers by strategy."""

    session_uuid: UUID
    last: SessionEnded
    loads: Mapping[Strategy, dict[str, Any]]


async def next_session(runtime: DemoRuntime, ledger: Ledger) -> NextSession:
    """Launch it, and load once by each strategy.

    Raises:
        StackError: refused, or not answered for 45 s.
    """
    last = _user_who_came_back(ledger).session
    session_uuid = uuid5(last.session_uuid, "demo-next-session:v1")
    launch = await runtime.launch(last, session_uuid)
    loads = {one: await runtime.load(session_uuid, launch.token, one) for one in SHOWN_STRATEGIES}
    return NextSession(session_uuid, last, loads)


def _user_who_came_back(ledger: Ledger) -> SessionStory:
    """The last session of the user with more than one session of whom most was learnt."""
    visits = Counter(story.session.caller.ref for story in ledger.stories if story.session.caller.ref)
    learnt: Counter[str] = Counter()
    for story in ledger.stories:
        ref = story.session.caller.ref
        if ref is not None and visits[ref] > 1 and story.save:
            learnt[ref] += story.save["state_data"]["saved"]
    name, _ = max(learnt.items(), key=lambda item: (item[1], item[0]))
    return next(story for story in reversed(ledger.stories) if story.session.caller.ref == name)
