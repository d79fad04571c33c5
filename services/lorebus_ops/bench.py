"""What `lorebus bench` does: saves and loads against a running Lorebus, as its callers see them.

The rule that must not break: it touches no agent config but one that it makes, and leaves no entry in that one.
"""

import asyncio
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any, Final
from uuid import UUID, uuid4

import httpx2
import typer

from lorebus_contracts.http_answers import RunSnapshot
from lorebus_ops.answers import carried_out, note, say, say_json, say_table
from lorebus_ops.bench_caller import WAIT, Caller
from lorebus_ops.bench_figures import Measured, report
from lorebus_ops.errors import EXIT_FAILED, RefusedError, UnreachableError
from lorebus_ops.gateway_client import MEMORY, gateway, named_target, sound
from lorebus_ops.target import is_here

_CLEARINGS: Final = 3
"""A save that the gateway took while the broker was away may come behind the one that was waited for."""


def bench(url: str | None, *, callers: int, seconds: float, sure: bool, as_json: bool) -> None:
    """Measure, clear up, and tell.

    Raises:
        typer.Exit: 1, it was not sure, the gateway refused, or a request failed; 3, it cannot be reached.
    """
    found = carried_out(_bench(url, callers, seconds, sure=sure))
    if as_json:
        say_json(found)
    else:
        _tell(found)
    if found["failed"] or found["save_to_visible"]["unseen"]:
        raise typer.Exit(EXIT_FAILED)


async def _bench(url: str | None, callers: int, seconds: float, *, sure: bool) -> dict[str, Any]:
    where = named_target(url).url
    if not sure and not is_here(where):
        raise RefusedError(f"{where} is another machine, which others may be using: give --yes to load it")
    measured, agent_config = Measured(), uuid4()
    async with gateway(url, connections=callers + 2) as client:
        await sound(await client.put(f"/api/app/agents/configs/{agent_config}", json={}))
        cast = [Caller(client, agent_config, measured) for _ in range(callers + 1)]
        try:
            took = await _measure(cast, seconds)
        finally:
            deleted = await _cleared(client, agent_config, cast)
    return {
        "url": where,
        "agent_config_uuid": str(agent_config),
        "callers": callers,
        "seconds": round(took, 1),
        **report(measured, over_seconds=took),
        "entries_removed": deleted,
    }


async def _measure(cast: Sequence[Caller], seconds: float) -> float:
    """Have all but one of the cast work, and that one watch; gives how many seconds the work took."""
    watcher, *workers = cast
    await asyncio.gather(*(caller.begin() for caller in cast))
    began = perf_counter()
    until = began + seconds
    watching = asyncio.create_task(watcher.watch(until))
    try:
        await asyncio.gather(*(caller.work(until) for caller in workers))
        took = perf_counter() - began
        await watching
    finally:
        watching.cancel()
    return took


async def _cleared(client: httpx2.AsyncClient, agent_config: UUID, cast: Sequence[Caller]) -> int:
    """Prune the agent config to nothing when its last save is handled; how many entries that took.

    An erasure would do more harm than good here: it also takes the organization's answers for `Idempotency-Key`.
    """
    body = {"agent_config_uuid": str(agent_config), "max_entries": 0}
    deleted = 0
    try:
        await asyncio.gather(*(caller.last_save() for caller in cast))
        for _ in range(_CLEARINGS):
            answer = await sound(await client.post(f"{MEMORY}/prune", json=body, headers=WAIT))
            run = RunSnapshot.model_validate_json(answer.content)
            deleted += int(str(run.state_data["deleted"]))
            if run.state_data["remaining"] == 0:
                break
    except (RefusedError, UnreachableError, httpx2.TransportError, ValueError, KeyError):
        note(f"entries of the bench may be left in the agent config {agent_config}: prune it to 0 entries")
    return deleted


def _tell(found: Mapping[str, Any]) -> None:
    say(f"{found['callers']} callers for {found['seconds']:g} s at {found['url']}")
    rows = [("save accepted", found["saves_accepted"]), ("save to visible", found["save_to_visible"])]
    rows += [(f"load {strategy}", load) for strategy, load in found["loads"].items()]
    say_table(
        ("what", "count", "a second", "p50 ms", "p99 ms"),
        [(name, *(one[key] for key in ("count", "per_second", "p50_ms", "p99_ms"))) for name, one in rows],
    )
    unseen = found["save_to_visible"]["unseen"]
    if unseen:
        note(f"{unseen} saves were not visible within 30 s: `lorebus lag` says who is behind")
    if found["failed"]:
        note("failed: " + ", ".join(f"{count} of {kind}" for kind, count in found["failed"].items()))
