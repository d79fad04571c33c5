"""`make bench`: everything measured in one run, by turns; a table, a JSON file and charts.

`python -m tests.bench.run --scale 0.02 --repetitions 2 --only saves,loads` is a quick look. What each part measures is
in the module of its name.
"""

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

import asyncpg
import uvloop

from tests.bench import peers
from tests.bench.cold_start import measure_cold_starts
from tests.bench.database import connect, settle
from tests.bench.environment import environment
from tests.bench.figures import BUS, STORE, TRIAL, column
from tests.bench.floors import measure_floors
from tests.bench.loads import CALLERS, Loads, config_of, measure_loads
from tests.bench.lorebus_api import LorebusApi, Runner
from tests.bench.lorebus_stack import LorebusStack, lorebus_stack
from tests.bench.places import data_folder
from tests.bench.plan import QUICK, Plan, plan_of
from tests.bench.prunes import CONFIG, Prunes
from tests.bench.publish import publish
from tests.bench.resident import megabytes_of, watched
from tests.bench.saves import LorebusSaver, Saver, TrialSaver, measure_backlog, measure_saves, open_scopes
from tests.bench.seeding import fill, seeds
from tests.bench.trial import Trial, bare_trial
from tests.bench.workload import cues
from tests.support.checker import check_quiet


class Bench:
    """One run; `results` grows with each part and is what is published."""

    def __init__(
        self,
        plan: Plan,
        stack: LorebusStack,
        trial: Trial,
        database: asyncpg.Connection,
        results: dict[str, Any],
    ) -> None:
        self._plan = plan
        self._stack = stack
        self._trial = trial
        self._database = database
        self.results = results
        results["resident"] = {}

    @property
    def _api(self) -> LorebusApi:
        return self._stack.bus if self._plan.judged == BUS else self._stack.store

    async def measure(self) -> None:
        """All parts that the plan has and that need a running system."""
        self.results["resident"]["idle"] = megabytes_of(self._stack.processes)
        if "floors" in self._plan.parts:
            await self._floors()
        if "saves" in self._plan.parts:
            async with self._watched("saves"):
                await self._saves()
        if "peers" in self._plan.parts:
            self.results["peers"] = await peers.measure(self._stack.info, self._plan)
        if {"loads", "prunes"} & set(self._plan.parts):
            runners = await self._filled()
        if "loads" in self._plan.parts:
            async with self._watched("loads"):
                await self._loads(runners)
        if "prunes" in self._plan.parts:
            async with self._watched("prunes"):
                await self._prunes(runners[self._plan.sizes[-1]])

    async def _floors(self) -> None:
        self.results["floors"] = floors = dict[str, list[float]]()
        amounts = {"memories": self._plan.memories, "repetitions": self._plan.repetitions}
        async for name, figure in measure_floors(self._trial, self._stack.info.bootstrap_servers, **amounts):
            floors.setdefault(name, []).append(figure)
            _say(f"{name}: {figure:.0f}/s")

    async def _saves(self) -> None:
        runners = await open_scopes(self._api)
        savers: dict[str, Saver] = {
            TRIAL: TrialSaver(self._trial),
            BUS: LorebusSaver(self._stack.bus, self._database, runners),
            STORE: LorebusSaver(self._stack.store, self._database, runners),
        }
        plan = self._plan
        self.results["saves"] = saves = dict[str, dict[str, list[dict[str, Any]]]]()
        async for name, per_post, run in measure_saves(
            savers, memories=plan.memories, repetitions=plan.repetitions
        ):
            saves.setdefault(name, {}).setdefault(str(per_post), []).append(asdict(run))
            _say(
                f"{name}: {run.per_second:.0f} memories/s at {per_post} a POST,"
                f" {run.wrong} wrong, {run.refused} refused"
            )
        rates = sorted(column(saves[plan.judged]["5"], "per_second"))
        at_p2 = rates[len(rates) // 2]
        backlog = [
            await measure_backlog(
                savers[plan.judged], per_second=at_p2, seconds=plan.backlog_seconds, seed=repetition
            )
            for repetition in range(plan.repetitions)
        ]
        _say(f"backlog at {at_p2:.0f} memories/s: {[round(run.backlog_seconds, 3) for run in backlog]} s")
        complaints = await check_quiet(self._database)
        self.results |= {
            "backlog": [asdict(run) for run in backlog],
            "complaints": complaints,
        }

    async def _filled(self) -> dict[int, list[Runner]]:
        """Fill the agent configs that are loaded from; sessions of 8 actors for each."""
        await _forget_saves(self._trial, self._database)
        runners = {}
        await self._api.make_configs([CONFIG, *map(config_of, self._plan.sizes)])
        for size in self._plan.sizes:
            config, began = config_of(size), time.monotonic()
            await fill(
                self._database,
                self._trial.database,
                organization=self._stack.organization,
                config=config,
                entries=seeds(size, seed=size),
            )
            if await self._api.total(config) != size:
                raise RuntimeError(f"the gateway does not count {size} entries")
            runners[size] = await self._api.open_sessions([(config, number) for number in range(CALLERS)])
            _say(f"an agent config of {size} entries is filled in {time.monotonic() - began:.0f} s")
        await settle(self._database, "lorebus.memories")
        await settle(self._trial.database, "mem")
        return runners

    async def _loads(self, runners: dict[int, list[Runner]]) -> None:
        self.results["loads"] = loads = dict[str, dict[str, dict[str, list[dict[str, Any]]]]]()
        async for name, size, strategy, run in measure_loads(
            Loads(self._database, runners, seconds=self._plan.load_seconds),
            lorebus=self._api.address,
            trial=self._trial.address,
            trial_url=self._trial.database_url,
            sizes=self._plan.sizes,
            repetitions=self._plan.repetitions,
        ):
            of_size = loads.setdefault(name, {}).setdefault(str(size), {})
            of_size.setdefault(strategy, []).append(asdict(run))
            _say(f"{name}: {strategy} of {size}: {run.per_second:.0f}/s, {run.p50:.1f} ms, {run.p99:.1f} ms")

    async def _prunes(self, runners: list[Runner]) -> None:
        self.results["prunes"] = prunes = dict[str, list[dict[str, Any]]]()
        measured = Prunes(
            self._api,
            organization=self._stack.organization,
            lorebus=self._database,
            trial=self._trial.database,
            loads=[runner.load("last_k", cue) for cue in cues(10, seed=2) for runner in runners],
            entries=tuple(seeds(self._plan.pruned, seed=7)),
        )
        async for name, run in measured.measure(repetitions=self._plan.repetitions):
            prunes.setdefault(name, []).append(asdict(run))
            _say(
                f"{name}: {run.seconds:.2f} s, loads' p99 {run.p99_before:.1f} -> {run.p99_meanwhile:.1f} ms"
            )

    @asynccontextmanager
    async def _watched(self, part: str) -> AsyncIterator[None]:
        async with watched(self._stack.processes) as resident:
            yield
        self.results["resident"][part] = resident.highest()


async def _forget_saves(trial: Trial, database: asyncpg.Connection) -> None:
    """Begin the loads with nothing that the saves left."""
    await TrialSaver(trial).forget_all()
    await LorebusSaver(LorebusApi(trial.address, ""), database, {}).forget_all()


async def run(plan: Plan, results: dict[str, Any]) -> None:
    """Add all that the plan asks for to `results`; `minutes` come last, when nothing is missing."""
    results |= {"environment": environment(), "judged": plan.judged, "plan": _told(plan)}
    began = time.monotonic()
    if "cold_starts" in plan.parts:
        results["cold_starts"] = starts = []
        async for start in measure_cold_starts(repetitions=plan.repetitions):
            starts.append(asdict(start))
            _say(f"cold start: ready {start.ready_seconds:.1f} s, answered {start.answered_seconds:.1f} s")
    if set(plan.parts) - {"cold_starts"}:
        with data_folder() as folder:
            async with lorebus_stack(folder) as stack, bare_trial(stack.info, folder) as trial:
                database = await connect(stack.database_url)
                try:
                    await Bench(plan, stack, trial, database, results).measure()
                finally:
                    await database.close()
    results["minutes"] = round((time.monotonic() - began) / 60, 1)


def main() -> None:
    """Measure what the command line asks for, print the table, and write the files.

    What was measured before something failed is kept, where nothing is published.
    """
    plan, results = plan_of(), dict[str, Any]()
    try:
        uvloop.run(run(plan, results))
    finally:
        whole = "minutes" in results
        print(publish({"minutes": "fewer than all", **results}, plan.folder if whole else QUICK))


def _told(plan: Plan) -> dict[str, object]:
    return {
        "scale": plan.scale,
        "repetitions": plan.repetitions,
        "parts": plan.parts,
        "memories": plan.memories,
        "sizes": plan.sizes,
        "pruned": plan.pruned,
        "load_seconds": plan.load_seconds,
    }


def _say(line: str) -> None:
    sys.stderr.write(f"lorebus: {line}\n")


if __name__ == "__main__":
    main()
