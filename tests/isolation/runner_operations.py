"""What a runner does with a session's token, over HTTP and over MCP."""

import json
from typing import Any, Final

from tests.isolation import texts
from tests.isolation.http_client import Answer
from tests.isolation.world import SESSIONS, Draw, Known, Organization, Session, World

STRATEGIES: Final = ("last_k", "importance", "full", "pack", "semantic")
IDEMPOTENCY_KEYS: Final = ("key", "Key", "%")
_MCP: Final = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2025-06-18",
}


async def register(world: World, draw: Draw, organization: Organization) -> None:
    """Register a session, perhaps with a launch recall."""
    await _registered(world, world.session(organization, draw.below(SESSIONS)), load=draw.often())


async def save(world: World, draw: Draw, organization: Organization) -> None:
    """Save by a session's token."""
    session, token = await _with_token(world, draw, organization)
    made, words = texts.entries(world, draw, session.owner)
    body = {"entries": made} if draw.often() else {"content": made[0]["text"]}
    answer = await _by_token(world, "save", session, token, what="memory-save", body=body, sent=words)
    _know_run(world, session, answer.json())


async def load(world: World, draw: Draw, organization: Organization) -> None:
    """Load by a session's token, sometimes with a key that other organizations use for the same body."""
    session, token = await _with_token(world, draw, organization)
    body, words = _wish(world, draw, session)
    key = {} if words or draw.often() else {"idempotency-key": draw.one_of(IDEMPOTENCY_KEYS)}
    asked = {} if key else body
    answer = await _by_token(
        world, "load", session, token, what="memory-load", body=asked, sent=words, headers=key
    )
    know_recall(world, session, answer.json())


async def load_of_another(world: World, draw: Draw, organization: Organization) -> None:
    """Show one session's token at another session's path, which is refused."""
    session, token = await _with_token(world, draw, organization)
    other = world.session(draw.one_of(world.organizations), draw.below(SESSIONS))
    answer = await world.ask(
        "load at another session's path",
        session.asker,
        "POST",
        f"/api/agents/sessions/{other.uuid}/memory-load",
        credentials=f"Agent {token}",
        body=b"{}",
    )
    world.expect(answer.status == 403 or other.uuid == session.uuid, "another session's path", answer)


async def look_at_run(world: World, draw: Draw, organization: Organization) -> None:
    """Ask by a token for any run that anybody was told of."""
    session, token = await _with_token(world, draw, organization)
    known = _any_known(world, draw, ("run", "recall", "recall on the bus"))
    if known is not None:
        path = f"/api/workflows/{known.id}{draw.one_of(('', '/history'))}"
        await world.ask("run by token", session.asker, "GET", path, credentials=f"Agent {token}")


async def recall_over_mcp(world: World, draw: Draw, organization: Organization) -> None:
    """The tool `recall`."""
    session, token = await _with_token(world, draw, organization)
    body, words = _wish(world, draw, session)
    await _tool(world, "recall over MCP", session, token, tool="recall", arguments=body, sent=words)


async def remember_over_mcp(world: World, draw: Draw, organization: Organization) -> None:
    """The tool `remember`."""
    session, token = await _with_token(world, draw, organization)
    made, words = texts.entries(world, draw, session.owner)
    await _tool(
        world, "remember over MCP", session, token, tool="remember", arguments={"entries": made}, sent=words
    )


def know_recall(world: World, session: Session, told: Any) -> None:  # noqa: ANN401 - JSON is anything.
    """Remember what a load was told its receipt is found by."""
    for name in ("recall_id", "pack_id"):
        world.know("recall", session.organization, (told or {}).get(name), session.asker)


async def _registered(world: World, session: Session, *, load: bool) -> str | None:
    word = world.mint(session.owner)
    body = {
        "agent_config_uuid": session.config,
        "session_uuid": session.uuid,
        "caller": session.caller.body(),
        "task": f"Book {word}",
        "load": load,
    }
    answer = await world.ask(
        "register",
        session.asker,
        "POST",
        "/api/app/agents/sessions",
        credentials=session.organization.credentials,
        body=json.dumps(body).encode(),
    )
    told = answer.json()
    if answer.status != 201 or not told:
        return None
    know_recall(world, session, told.get("recall"))
    token: str = told["token"]
    world.tokens[session.organization.index, session.uuid] = token
    return token


async def _with_token(world: World, draw: Draw, organization: Organization) -> tuple[Session, str]:
    session = world.session(organization, draw.below(SESSIONS))
    token = world.tokens.get((organization.index, session.uuid))
    return session, token or await _registered(world, session, load=False) or "none"


async def _by_token(
    world: World,
    operation: str,
    session: Session,
    token: str,
    *,
    what: str,
    body: dict[str, Any],
    sent: list[str],
    headers: dict[str, str] | None = None,
) -> Answer:
    return await world.ask(
        operation,
        session.asker,
        "POST",
        f"/api/agents/sessions/{session.uuid}/{what}",
        credentials=f"Agent {token}",
        body=json.dumps(body).encode(),
        sent=sent,
        headers=headers,
    )


async def _tool(
    world: World,
    operation: str,
    session: Session,
    token: str,
    *,
    tool: str,
    arguments: dict[str, Any],
    sent: list[str],
) -> None:
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }
    await world.ask(
        operation,
        session.asker,
        "POST",
        "/mcp",
        credentials=f"Agent {token}",
        body=json.dumps(call).encode(),
        sent=sent,
        headers=_MCP,
    )


def _wish(world: World, draw: Draw, session: Session) -> tuple[dict[str, Any], list[str]]:
    """What a load asks for, and the canary of its cue if it has one."""
    body: dict[str, Any] = {"explain": not draw.often()}
    if draw.often():
        body["strategy"] = draw.one_of(STRATEGIES)
    if not draw.often():
        body["top_k"] = 1 + draw.below(1000)
    if draw.often():
        return body, []
    word = world.mint(session.owner)
    return body | {"cue": f"What is liked of {word}"}, [word]


def _know_run(world: World, session: Session, told: Any) -> None:  # noqa: ANN401 - JSON is anything.
    world.know("run", session.organization, (told or {}).get("workflow_id"), session.asker)


def _any_known(world: World, draw: Draw, kinds: tuple[str, ...]) -> Known | None:
    known = world.known[draw.one_of(kinds)]
    return draw.one_of(known) if known else None
