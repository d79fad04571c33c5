"""What an organization does with its API key; ids are anybody's, so that it asks for what is another's as well."""

import json
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from tests.isolation import texts
from tests.isolation.bus import now
from tests.isolation.canaries import Asker, Owner
from tests.isolation.http_client import Answer
from tests.isolation.runner_operations import STRATEGIES, know_recall
from tests.isolation.world import SESSIONS, Draw, Known, Organization, Session, World

_APP: Final = "/api/app/agents"
_MEMORY: Final = _APP + "/memory"
WORDS: Final = ("cnry", "liked", "%", "\\", "_", "CNRY liked")


async def list_entries(world: World, draw: Draw, organization: Organization) -> None:
    """A page of entries, by any filter."""
    config = draw.one_of(world.configs)
    query: dict[str, object] = {"agent_config_uuid": config, "per_page": draw.one_of((100, 20, 3))}
    asker = organization.asker(config)
    whose = draw.below(4)
    if whose == 0:
        query["principal_ref"] = ref = draw.one_of(world.cast).told or "%"
        asker = Asker(organization.uuid, config, "principal", ref)
    elif whose == 1:
        query["shared"] = "true"
        asker = Asker(organization.uuid, config, "principal")
    if not draw.often():
        query["q"] = draw.one_of(WORDS)
    if not draw.often():
        query["origin"] = draw.one_of(("runner", "distill", "workflow", "import"))
    if not draw.often():
        query["min_importance"] = draw.one_of(texts.IMPORTANCES)
    if not draw.often():
        query["page"] = 1 + draw.below(3)
    if draw.below(8) == 0:
        query["state"] = "quarantined"
    answer = await _get(world, "list", organization, f"{_MEMORY}?{urlencode(query)}", asker=asker)
    for item in (answer.json() or {}).get("items", ()):
        world.know("entry", organization, item["id"], _asker_of(organization, config, item["principal_ref"]))


async def delete_entry(world: World, draw: Draw, organization: Organization) -> None:
    """Delete any entry that anybody has seen."""
    known = _known(world, draw, "entry")
    if known is not None:
        answer = await _ask(world, "delete", organization, "DELETE", f"{_MEMORY}/{known.id}")
        _expect_none_of_anothers(world, organization, known, answer, "delete")


async def evidence(world: World, draw: Draw, organization: Organization) -> None:
    """What stands behind any entry, or its release."""
    known = _known(world, draw, "entry")
    if known is None:
        return
    if draw.often():
        answer = await _get(world, "evidence", organization, f"{_MEMORY}/{known.id}/evidence")
    else:
        answer = await _ask(world, "release", organization, "POST", f"{_MEMORY}/{known.id}/release", body={})
    _expect_none_of_anothers(world, organization, known, answer, "evidence")


async def receipt(world: World, draw: Draw, organization: Organization) -> None:
    """The receipt of any recall: what its own session may see, or nothing at all."""
    kind = draw.one_of(("recall", "recall on the bus"))
    known = _known(world, draw, kind)
    if known is not None:
        path = f"{_APP}/recalls/{known.id}"
        asker = known.asker if known.organization == organization.index else organization.asker()
        answer = await _get(world, "receipt", organization, path, asker=asker)
        if kind == "recall":
            _expect_none_of_anothers(world, organization, known, answer, "receipt")


async def look_at_run(world: World, draw: Draw, organization: Organization) -> None:
    """Any run, or its history."""
    known = _known(world, draw, draw.one_of(("run", "recall", "recall on the bus")))
    if known is not None:
        path = f"/api/workflows/{known.id}{draw.one_of(('', '/history'))}"
        await _get(world, "run", organization, path)


async def list_runs(world: World, draw: Draw, organization: Organization) -> None:
    """The latest runs."""
    answer = await _get(world, "list runs", organization, f"/api/workflows?limit={1 + draw.below(50)}")
    for run in (answer.json() or {}).get("runs", ())[:3]:
        world.know("run", organization, run["workflow_id"], organization.asker())


async def erase(world: World, draw: Draw, organization: Organization) -> None:
    """Erase a principal, or what a session left."""
    session = world.session(organization, draw.below(SESSIONS))
    body: dict[str, Any] = {"session_uuid": session.uuid}
    if session.caller.ref is not None and draw.often():
        body = {"principal_ref": session.caller.ref}
        if draw.often():
            body["agent_config_uuid"] = session.config
    answer = await _ask(world, "erase", organization, "POST", f"{_MEMORY}/erase", body=body)
    told = answer.json() or {}
    world.know("erasure", organization, told.get("erasure_id"), organization.asker())


async def look_at_erasure(world: World, draw: Draw, organization: Organization) -> None:
    """The receipt of any erasure."""
    known = _known(world, draw, "erasure")
    if known is not None:
        answer = await _get(world, "erasure", organization, f"{_MEMORY}/erasures/{known.id}")
        _expect_none_of_anothers(world, organization, known, answer, "erasure")


async def export(world: World, draw: Draw, organization: Organization) -> None:
    """All entries of an agent config as a file."""
    config = draw.one_of(world.configs)
    path = f"{_MEMORY}/export?agent_config_uuid={config}"
    await _get(world, "export", organization, path, asker=organization.asker(config))


async def import_file(world: World, draw: Draw, organization: Organization) -> None:
    """Entries of several principals as a file."""
    config = draw.one_of(world.configs)
    lines: list[dict[str, Any]] = [{"format": "lorebus.memory", "version": 1}]
    for caller in world.cast[: 1 + draw.below(4)]:
        word = world.mint(Owner(organization.uuid, config, caller.ref))
        at = now()
        lines.append(
            {
                "principal_ref": caller.ref,
                "text": f"{word} came as a file",
                "importance": 0.7,
                "created_at": at,
                "updated_at": at,
            }
        )
    lines.append({"end": True, "entries": len(lines) - 1})
    await world.ask(
        "import",
        organization.asker(),
        "POST",
        f"{_MEMORY}/import?agent_config_uuid={config}",
        credentials=organization.credentials,
        body="".join(json.dumps(line) + "\n" for line in lines).encode(),
        headers={"content-type": "application/x-ndjson"},
    )


async def start_load(world: World, draw: Draw, organization: Organization) -> None:
    """A load as a workflow run: the organization asks, and gets what the session may see."""
    session = world.session(organization, draw.below(SESSIONS))
    word = world.mint(session.owner)
    data = {"session_uuid": session.uuid, "cue": f"What of {word}", "strategy": draw.one_of(STRATEGIES)}
    answer = await _start(world, "start a load", session, "agents.memory-load", data, sent=[word])
    know_recall(world, session, (answer.json() or {}).get("state_data"))


async def start_save(world: World, draw: Draw, organization: Organization) -> None:
    """A save as a workflow run, sometimes for a principal: only a session of nobody's may name another than its own."""
    session = world.session(organization, draw.below(SESSIONS))
    named = None if draw.often() else draw.one_of(world.cast).ref
    is_refused = named not in {None, session.caller.ref} and session.caller.kind != "none"
    owner = session.owner if named is None else replace(session.owner, principal=named)
    made, words = texts.entries(world, draw, owner)
    data: dict[str, Any] = {"session_uuid": session.uuid, "entries": made}
    if named is not None:
        data["principal_ref"] = named
    answer = await _start(world, "start a save", session, "agents.memory-save", data, sent=words)
    world.expect(not is_refused or answer.status in {403, 404}, "a save for another principal", answer)
    world.know("run", organization, (answer.json() or {}).get("workflow_id"), session.asker)


async def prune(world: World, draw: Draw, organization: Organization) -> None:
    """Cut an agent config down, or only ask what that would take."""
    config = draw.one_of(world.configs)
    body = {"agent_config_uuid": config, "max_entries": draw.below(30), "dry_run": draw.often()}
    asker = organization.asker(config)
    answer = await _ask(world, "prune", organization, "POST", f"{_MEMORY}/prune", body=body, asker=asker)
    world.know("run", organization, (answer.json() or {}).get("workflow_id"), asker)


async def end_session(world: World, draw: Draw, organization: Organization) -> None:
    """Tell that a session ended, with a trace that teaches something."""
    session = world.session(organization, draw.below(SESSIONS))
    word = world.mint(session.owner)
    body = {
        "outcome": draw.one_of(("success", "failed", "cancelled")),
        "step_count": 2,
        "trace": texts.trace(word),
        "event_id": draw.one_of(world.event_ids),
    }
    await _ask(world, "end", organization, "POST", f"{_APP}/sessions/{session.uuid}/end", body=body)


async def rate_session(world: World, draw: Draw, organization: Organization) -> None:
    """Rate a session."""
    session = world.session(organization, draw.below(SESSIONS))
    body = {"quality_score": draw.one_of((0.2, 0.9)), "event_id": draw.one_of(world.event_ids)}
    await _ask(world, "rate", organization, "POST", f"{_APP}/sessions/{session.uuid}/rating", body=body)


async def settings(world: World, draw: Draw, organization: Organization) -> None:
    """Look at settings, or change how an agent config recalls."""
    config = draw.one_of(world.configs)
    if draw.often():
        path = draw.one_of(("/api/app/organization", f"{_APP}/configs/{config}"))
        await _get(world, "settings", organization, path)
    else:
        await put_config(world, organization, config, draw)


async def choose_rules(world: World, organization: Organization) -> None:
    """Have the built-in rules distil, whose lessons name what the trace names."""
    body = {"model_profile": "trace-rules"}
    await _ask(world, "put settings", organization, "PUT", "/api/app/organization", body=body)


async def put_config(world: World, organization: Organization, config: str, draw: Draw) -> None:
    """Give an agent config settings; they make it known."""
    body = {
        "memory_strategy": draw.one_of(STRATEGIES),
        "memory_top_k": draw.one_of((10, 50)),
        "memory_max_entries": draw.one_of((10_000, 40)),
        "memory_pack_reach": draw.one_of(("recent", "all")),
    }
    await _ask(world, "put settings", organization, "PUT", f"{_APP}/configs/{config}", body=body)


def _asker_of(organization: Organization, config: str, principal: str | None) -> Asker:
    return Asker(organization.uuid, config, "principal", principal)


def _known(world: World, draw: Draw, kind: str) -> Known | None:
    known = world.known[kind]
    return draw.one_of(known) if known else None


def _expect_none_of_anothers(
    world: World, organization: Organization, known: Known, answer: Answer, what: str
) -> None:
    """What is another organization's is not there."""
    is_own = known.organization == organization.index
    world.expect(is_own or answer.status == 404, f"{what} of another organization", answer)


async def _get(
    world: World, operation: str, organization: Organization, path: str, *, asker: Asker | None = None
) -> Answer:
    return await _ask(world, operation, organization, "GET", path, asker=asker)


async def _ask(
    world: World,
    operation: str,
    organization: Organization,
    method: str,
    path: str,
    *,
    body: dict[str, Any] | None = None,
    asker: Asker | None = None,
    sent: list[str] | None = None,
) -> Answer:
    return await world.ask(
        operation,
        asker or organization.asker(),
        method,
        path,
        credentials=organization.credentials,
        body=None if body is None else json.dumps(body).encode(),
        sent=sent or (),
    )


async def _start(
    world: World,
    operation: str,
    session: Session,
    kind: str,
    data: dict[str, Any],
    *,
    sent: list[str],
) -> Answer:
    organization = session.organization
    scope = {"organization_uuid": organization.uuid, "agent_config_uuid": session.config}
    body = {"workflow_type": kind, "initial_data": scope | data}
    return await _ask(
        world,
        operation,
        organization,
        "POST",
        "/api/workflows/start",
        body=body,
        asker=session.asker,
        sent=sent,
    )
