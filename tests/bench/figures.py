"""What was measured, as plain JSON, and the figures P1 to P11 worked out of it.

The rule that must not break: a ratio is made only of what one run measured by turns on one machine.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tests.bench.samples import ratio_of_pairs

TRIAL: Final = "bare trial"
BUS: Final = "lorebus, accept=bus"
STORE: Final = "lorebus, accept=store"
LOREBUS: Final = "lorebus"
RAW_DELETE: Final = "raw stepped delete"
CONSUMERS: Final = ("save", "distill", "labeller", "prune")
Results = Mapping[str, Any]


def column(runs: Sequence[Mapping[str, Any]], field: str) -> list[float]:
    """One field of each repetition."""
    return [float(run[field]) for run in runs]


def reached(results: Results) -> dict[str, float | None]:
    """What stands for each key of `targets.TARGETS`; a key that is missing was not measured."""
    return {
        **_of_saves(results),
        **_of_loads(results),
        **_of_prunes(results),
        **_of_processes(results),
        **_of_peers(results),
    }


def _of_saves(results: Results) -> dict[str, float | None]:
    saves = results.get("saves", {})
    judged, found = saves.get(results.get("judged", BUS), {}), dict[str, float | None]()
    for per_post, runs in judged.items():
        floor = saves.get(TRIAL, {}).get(per_post, ())
        if len(floor) == len(runs):
            found[f"saves_{per_post}"] = ratio_of_pairs(
                column(runs, "per_second"), column(floor, "per_second")
            )
    ours = [run for name in (BUS, STORE) for runs in saves.get(name, {}).values() for run in runs]
    backlog = results.get("backlog", [])
    if ours:
        found["lost_saves"] = sum(column([*ours, *backlog], "wrong")) + len(results.get("complaints", ()))
    if backlog:
        found["backlog_seconds"] = statistics.median(column(backlog, "backlog_seconds"))
    return found


def _of_loads(results: Results) -> dict[str, float | None]:
    loads = results.get("loads", {})
    ours, floors = loads.get(LOREBUS, {}), loads.get(TRIAL, {})
    if not ours:
        return {}
    smallest, largest = min(ours, key=int), max(ours, key=int)
    found: dict[str, float | None] = {}
    for strategy, runs in ours[largest].items():
        floor = floors.get(largest, {}).get(strategy, ())
        if len(floor) == len(runs):
            found[f"{strategy}_rate"] = ratio_of_pairs(
                column(runs, "per_second"), column(floor, "per_second")
            )
            found[f"{strategy}_p99"] = ratio_of_pairs(column(runs, "p99"), column(floor, "p99"))
        small = ours[smallest][strategy]
        if smallest != largest and len(small) == len(runs):
            found[f"growth_{strategy}"] = ratio_of_pairs(column(runs, "p50"), column(small, "p50"))
    return found


def _of_prunes(results: Results) -> dict[str, float | None]:
    prunes = results.get("prunes", {})
    ours, floor = prunes.get(LOREBUS, ()), prunes.get(RAW_DELETE, ())
    if not ours or len(ours) != len(floor):
        return {}
    return {
        "prune_time": ratio_of_pairs(column(ours, "seconds"), column(floor, "seconds")),
        "prune_p99": ratio_of_pairs(column(ours, "p99_meanwhile"), column(ours, "p99_before")),
    }


def _of_processes(results: Results) -> dict[str, float | None]:
    highest = _highest(results.get("resident", {}).values())
    starts = results.get("cold_starts", ())
    gateways = [size for name, size in highest.items() if name.startswith("gateway")]
    consumers = [size for name, size in highest.items() if name in CONSUMERS]
    return {
        "cold_start": statistics.median(column(starts, "answered_seconds")) if starts else None,
        "gateway_mb": max(gateways, default=None),
        "consumer_mb": max(consumers, default=None),
    }


def _of_peers(results: Results) -> dict[str, float | None]:
    ours = results.get("saves", {}).get(results.get("judged", BUS), {}).get("1", ())
    found: dict[str, float | None] = {}
    for key, peer in (("over_mem0", "mem0"), ("over_hindsight", "hindsight")):
        theirs = results.get("peers", {}).get(peer, {}).get("saves_per_second")
        if ours and theirs:
            found[key] = statistics.median(column(ours, "per_second")) / float(theirs)
    return found


def _highest(looks: Iterable[Mapping[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for look in looks:
        for name, megabytes in look.items():
            found[name] = max(megabytes, found.get(name, 0.0))
    return found
