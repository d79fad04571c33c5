"""The load generator, a process of its own: `python -m tests.bench.generator JOB RESULT`.

The same for everything that speaks HTTP. JOB and RESULT are JSON files. Callers send the job's requests, each caller
one after the other on a connection of its own: all of them once, or over and over for some seconds; as fast as they
are answered, or at a given rate.
"""

import asyncio
import gc
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Final

import uvloop

from tests.bench.http_wire import Address, Connection

SUCCESS: Final = range(200, 300)


@dataclass(frozen=True, slots=True)
class Job:
    """What to send: the requests as ASCII text; `seconds` None is each once, `per_second` None is at full speed."""

    host: str
    port: int
    callers: int
    requests: Sequence[str]
    seconds: float | None = None
    per_second: float | None = None


@dataclass(slots=True)
class Sent:
    """What came of it: by the wall clock when it began and ended, milliseconds of each answered request.

    `moments` says when each answer came, in seconds from the beginning, in the order of `milliseconds`.
    """

    began: float = 0.0
    ended: float = 0.0
    milliseconds: list[float] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began

    @property
    def refused(self) -> int:
        """How many answers were no success."""
        return sum(count for status, count in self.statuses.items() if int(status) not in SUCCESS)


def main() -> None:
    """Do the job that the first word names, and write what came of it where the second says."""
    job_path, result_path = map(Path, sys.argv[1:3])
    job = Job(**json.loads(job_path.read_text("ascii")))
    # Cycles are not made here, and a collection in the middle would be measured as the server's.
    gc.disable()
    result_path.write_text(json.dumps(asdict(uvloop.run(send(job)))))


async def send(job: Job) -> Sent:
    """Send it all."""
    address = Address(job.host, job.port)
    connections = [await Connection.open(address) for _ in range(job.callers)]
    requests = [text.encode("ascii") for text in job.requests]
    waiting = iter(requests) if job.seconds is None else cycle(requests)
    sent, statuses = Sent(began=time.time()), Counter[str]()
    clock = _Clock(job, time.perf_counter())
    await asyncio.gather(*(_call(one, waiting, clock, sent, statuses) for one in connections))
    sent.ended, sent.statuses = time.time(), dict(statuses)
    for connection in connections:
        connection.close()
    return sent


class _Clock:
    """When the next request may go, and when it is too late for another."""

    def __init__(self, job: Job, began: float) -> None:
        self.began = began
        self._until = None if job.seconds is None else began + job.seconds
        self._step = None if job.per_second is None else 1.0 / job.per_second
        self._next = began

    def is_over(self) -> bool:
        return self._until is not None and time.perf_counter() >= self._until

    async def turn(self) -> float:
        """Wait for the next request's time, and give it: one that is late counts from when it should have gone."""
        now = time.perf_counter()
        if self._step is None:
            return now
        due = self._next
        self._next += self._step
        if due <= now:
            return due
        await asyncio.sleep(due - now)
        return time.perf_counter()


async def _call(
    connection: Connection, waiting: Iterator[bytes], clock: _Clock, sent: Sent, statuses: Counter[str]
) -> None:
    for request in waiting:
        if clock.is_over():
            return
        asked = await clock.turn()
        answer = await connection.ask(request)
        now = time.perf_counter()
        sent.milliseconds.append(1000 * (now - asked))
        sent.moments.append(now - clock.began)
        statuses[str(answer.status)] += 1


if __name__ == "__main__":
    main()
