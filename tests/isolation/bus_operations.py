"""What a session runtime tells on the bus; event ids and session ids are the same in all organizations."""

import uuid
from typing import Any, Final

from tests.isolation import texts
from tests.isolation.bus import now
from tests.isolation.canaries import Owner, may_see
from tests.isolation.runner_operations import STRATEGIES
from tests.isolation.world import SESSIONS_ON_THE_BUS, Draw, Known, Organization, Session, World

HANDED_OUT: Final = 5


async def save_requested(world: World, draw: Draw, organization: Organization) -> None:
    """Entries for a session's own scope."""
    session = _session(world, draw, organization)
    made, _ = texts.entries(world, draw, session.owner)
    event = _of_session(world, draw, session) | {
        "principal_ref": session.caller.ref,
        "entries": made,
        "origin": draw.one_of(("runner", "workflow")),
    }
    world.know("run", organization, event["event_id"], session.asker)
    key = f"{session.config}|{session.caller.ref or ''}"
    await world.tell("memory.save-requested", "memory.save-requested", key, event)


async def session_ended(world: World, draw: Draw, organization: Organization) -> None:
    """The end of a session whose trace teaches something."""
    session = _session(world, draw, organization)
    word, task = world.mint(session.owner), world.mint(session.owner)
    event = _of_session(world, draw, session) | {
        "outcome": draw.one_of(("success", "failed", "success", "cancelled")),
        "task": f"Book {task}",
        "step_count": 2 + draw.below(3),
        "trace": texts.trace(word),
    }
    await world.tell("session.ended", "session.ended", session.uuid, event)


async def session_rated(world: World, draw: Draw, organization: Organization) -> None:
    """A rating of a session."""
    session = _session(world, draw, organization)
    event = _of_session(world, draw, session) | {"quality_score": draw.one_of((0.1, 0.5, 1.0))}
    del event["caller"]
    await world.tell("session.rated", "session.rated", session.uuid, event)


async def recall_recorded(world: World, draw: Draw, organization: Organization) -> None:
    """A recall that claims to have handed out entries of others: of any organization, but of no other principal.

    The bus is written by the product and by runtimes that it trusts with their own organization's memory.
    """
    session = _session(world, draw, organization)
    if session.caller.is_unresolved:
        # Nothing is recalled for it.
        return
    known = [
        entry.id
        for entry in world.known["entry"]
        if entry.organization != organization.index or _may_be_handed_out(session, entry)
    ]
    strategy = draw.one_of(STRATEGIES)
    event = _of_session(world, draw, session) | {
        # The same in all organizations, but in each of them only one session's.
        "event_id": str(uuid.uuid5(uuid.UUID(draw.one_of(world.event_ids)), session.uuid)),
        "requested_strategy": strategy,
        "strategy": "last_k" if strategy == "semantic" else strategy,
        "top_k": 10,
        "cue": f"What of {world.mint(session.owner)}",
        "budget_used_chars": 0,
        "entries": [
            {"memory_id": entry, "rank": rank, "importance": 0.5}
            for rank, entry in enumerate(known[-HANDED_OUT:], start=1)
        ],
    }
    world.know("recall on the bus", organization, event["event_id"], session.asker)
    await world.tell("recall.recorded", "recall.recorded", session.uuid, event)


async def prune_requested(world: World, draw: Draw, organization: Organization) -> None:
    """A request to cut an agent config down."""
    config = draw.one_of(world.configs)
    event = {
        "event_id": _event_id(world, draw),
        "occurred_at": now(),
        "organization_uuid": organization.uuid,
        "agent_config_uuid": config,
        "max_entries": 10 + draw.below(30),
    }
    await world.tell("memory.prune-requested", "memory.prune-requested", config, event)


def _session(world: World, draw: Draw, organization: Organization) -> Session:
    return world.session(organization, draw.below(SESSIONS_ON_THE_BUS))


def _of_session(world: World, draw: Draw, session: Session) -> dict[str, Any]:
    return {
        "event_id": _event_id(world, draw),
        "occurred_at": now(),
        "organization_uuid": session.organization.uuid,
        "agent_config_uuid": session.config,
        "session_uuid": session.uuid,
        "caller": session.caller.body(),
    }


def _event_id(world: World, draw: Draw) -> str:
    """One that is another organization's as well, or a new one."""
    return str(uuid.uuid4()) if draw.often() else draw.one_of(world.event_ids)


def _may_be_handed_out(session: Session, entry: Known) -> bool:
    asker = entry.asker
    return may_see(session.asker, Owner(asker.organization, asker.config or "", asker.ref))
