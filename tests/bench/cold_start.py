"""`lorebus up` in an empty folder until the first save and the first load are answered."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from tests.bench.http_wire import Address
from tests.bench.lorebus_api import LorebusApi, config_uuid
from tests.bench.lorebus_stack import lorebus_up, until_up
from tests.bench.patience import until
from tests.bench.places import data_folder
from tests.bench.workload import Post, new_memories

_CUE: Final = "What is known"


@dataclass(frozen=True, slots=True)
class ColdStart:
    """Seconds since the command was called: all ready; save and load answered; the load has what was saved."""

    ready_seconds: float
    answered_seconds: float
    remembered_seconds: float


async def measure_cold_starts(*, repetitions: int) -> AsyncIterator[ColdStart]:
    """One measurement after the other, each in a folder of its own, so that PostgreSQL is set up as well."""
    for _ in range(repetitions):
        with data_folder() as folder:
            began = time.perf_counter()
            with lorebus_up(folder) as up:
                info = await until_up(up, folder)
                ready = time.perf_counter() - began
                answered, remembered = await _first_use(
                    LorebusApi(Address.of(info.gateway_url), info.api_key)
                )
                yield ColdStart(ready, answered - began, remembered - began)


async def _first_use(api: LorebusApi) -> tuple[float, float]:
    config = config_uuid("first")
    await api.make_configs([config])
    (runner,) = await api.open_sessions([(config, 0)])
    await api.ask_all([runner.save(Post(0, 0, tuple(new_memories(1, seed=0))))])
    counts: list[int] = []

    async def load() -> bool:
        (told,) = await api.ask_all([runner.load("last_k", _CUE)])
        counts.append(int(told["count"]))
        return True

    await load()
    answered = time.perf_counter()

    async def remembers() -> bool:
        return counts[-1] == 1 or (await load() and counts[-1] == 1)

    await until(remembers)
    return answered, time.perf_counter()
