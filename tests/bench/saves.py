"""Saves, by turns on the bare trial and on Lorebus: memories a second until each of them is committed.

The rule that must not break: the clock starts with the first request and stops when the database holds them all, not
when the last one is answered; every memory is counted afterwards.
"""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import asyncpg

from tests.bench import database as tables
from tests.bench.database import Stored
from tests.bench.http_wire import Address
from tests.bench.lorebus_api import LorebusApi, Runner, config_uuid
from tests.bench.patience import until
from tests.bench.samples import percentile
from tests.bench.sending import send_all
from tests.bench.trial import Trial, save_request
from tests.bench.workload import CONFIGS, PRINCIPALS, Post, SaveWork, save_work

CALLERS: Final = 64
PER_POST: Final = (1, 5, 100)


@dataclass(frozen=True, slots=True)
class SaveRun:
    """One measurement: memories a second to durable, milliseconds of the answers, what was left at the last answer."""

    per_second: float
    answered_p50: float
    answered_p99: float
    backlog_seconds: float
    wrong: int
    """Memories that were accepted and are missing, or are counted twice."""

    refused: int
    """Requests that were answered with no success; their memories count for nothing."""


class Saver(Protocol):
    """What saves are sent to."""

    @property
    def address(self) -> Address:
        """Where it listens."""

    def request(self, of: Post) -> bytes:
        """A save."""

    async def forget_all(self) -> None:
        """Begin with nothing."""

    async def stored(self) -> Stored:
        """What is committed."""


class TrialSaver:
    """The bare trial."""

    def __init__(self, trial: Trial) -> None:
        self.address = trial.address
        self._trial = trial

    def request(self, of: Post) -> bytes:
        """A save."""
        return save_request(of)

    async def forget_all(self) -> None:
        """Begin with nothing."""
        await self._trial.database.execute("TRUNCATE mem")

    async def stored(self) -> Stored:
        """What is committed."""
        return await self._trial.stored()


class LorebusSaver:
    """Lorebus, through one of its gateways."""

    def __init__(
        self, api: LorebusApi, database: asyncpg.Connection, runners: Mapping[tuple[int, int], Runner]
    ) -> None:
        self.address = api.address
        self._database = database
        self._runners = runners

    def request(self, of: Post) -> bytes:
        """A save."""
        return self._runners[of.config, of.principal].save(of)

    async def forget_all(self) -> None:
        """Begin with nothing, once all that the last saves caused is published."""
        await until(lambda: tables.is_quiet(self._database))
        await tables.forget_all(self._database)

    async def stored(self) -> Stored:
        """What is committed."""
        return await tables.stored(self._database)


async def open_scopes(api: LorebusApi) -> dict[tuple[int, int], Runner]:
    """A session for each agent config and principal of the work."""
    scopes = [(config, principal) for config in range(CONFIGS) for principal in range(PRINCIPALS)]
    await api.make_configs([config_uuid(str(config)) for config in range(CONFIGS)])
    runners = await api.open_sessions([(config_uuid(str(config)), number) for config, number in scopes])
    return dict(zip(scopes, runners, strict=True))


async def measure_saves(
    savers: Mapping[str, Saver], *, memories: int, repetitions: int
) -> AsyncIterator[tuple[str, int, SaveRun]]:
    """Each saver's name, entries a POST, and one measurement; the savers by turns, repetition after repetition."""
    for repetition in range(repetitions):
        for per_post in PER_POST:
            work = save_work(memories=memories, per_post=per_post, seed=repetition)
            for name, saver in savers.items():
                yield name, per_post, await _measured(saver, work)


async def measure_backlog(saver: Saver, *, per_second: float, seconds: float, seed: int) -> SaveRun:
    """Saves of 5 entries at a given rate of memories for a while."""
    work = save_work(memories=int(per_second * seconds), per_post=5, seed=seed)
    return await _measured(saver, work, posts_per_second=per_second / 5)


async def _measured(saver: Saver, work: SaveWork, *, posts_per_second: float | None = None) -> SaveRun:
    await saver.forget_all()
    requests: Sequence[bytes] = [saver.request(one) for one in work.posts]
    sent = await send_all(
        saver.address, requests, callers=min(CALLERS, len(requests)), per_second=posts_per_second
    )

    # Nobody need wait for what was refused.
    accepted = work.memories - sent.refused * len(work.posts[0].memories)

    async def all_stored() -> bool:
        return (await saver.stored()).saves >= accepted

    await until(all_stored)
    durable = time.time()
    there = await saver.stored()
    return SaveRun(
        per_second=accepted / (durable - sent.began),
        answered_p50=percentile(sent.milliseconds, 50),
        answered_p99=percentile(sent.milliseconds, 99),
        backlog_seconds=durable - sent.ended,
        wrong=_wrong(there, work, accepted=accepted, refused=work.memories - accepted),
        refused=sent.refused,
    )


def _wrong(there: Stored, work: SaveWork, *, accepted: int, refused: int) -> int:
    """Memories that are missing or counted twice; what was refused for want of an answer may be there or not."""
    if refused:
        return max(0, accepted - there.saves, there.saves - accepted - refused)
    return abs(there.saves - accepted) + abs(there.rows - work.distinct)
