import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from lorebus_ops.line_log import LineLog
from lorebus_ops.processes import Program
from lorebus_ops.supervisor import Supervisor
from tests.support.processes import eventually, is_gone, line_log, lines_of


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LineLog]:
    with line_log(tmp_path) as made:
        yield made


@pytest.fixture
async def supervisor(log: LineLog) -> AsyncIterator[Supervisor]:
    made = Supervisor(log)
    yield made
    await made.stop()


def shell(script: str, *, stop_seconds: float = 10.0) -> Program:
    return Program("worker", ("sh", "-c", script), stop_seconds=stop_seconds)


async def test_a_crashed_program_is_started_again_and_the_log_says_so(
    supervisor: Supervisor, log: LineLog, tmp_path: Path
) -> None:
    crashes_once = f"test -e {tmp_path}/crashed && exec sleep 1000; touch {tmp_path}/crashed; exit 3"

    worker = await supervisor.start(shell(crashes_once))

    await eventually(lambda: worker.ends == 1 and worker.process_id is not None)
    assert "lorebus  | worker ended with exit code 3; starting it again in 0.2 s" in lines_of(log)


async def test_a_killed_program_is_started_again_and_the_log_names_the_signal(
    supervisor: Supervisor, log: LineLog
) -> None:
    worker = await supervisor.start(shell("exec sleep 1000"))
    first = worker.process
    assert first is not None

    first.kill()

    await eventually(lambda: worker.process_id not in (None, first.pid))
    assert "lorebus  | worker was ended by SIGKILL; starting it again in 0.2 s" in lines_of(log)


async def test_a_program_that_keeps_crashing_is_started_less_and_less_often(
    supervisor: Supervisor, log: LineLog
) -> None:
    worker = await supervisor.start(shell("exit 1"))

    await eventually(lambda: worker.ends >= 3)

    assert [line.split()[-2] for line in lines_of(log) if "again" in line][:3] == ["0.2", "0.4", "0.8"]


async def test_what_is_to_be_done_after_a_restart_is_done(supervisor: Supervisor) -> None:
    restarted = asyncio.Event()

    async def note() -> None:
        restarted.set()

    worker = await supervisor.start(shell("exec sleep 1000"), note)
    assert worker.process is not None
    worker.process.kill()

    await asyncio.wait_for(restarted.wait(), 30)


async def test_both_outputs_of_a_program_go_to_the_log_line_by_line(
    supervisor: Supervisor, log: LineLog
) -> None:
    long = "x" * 100_000
    script = (
        "echo one; echo two >&2; printf '%0100000d' 0 | tr 0 x; echo; printf last; exec sleep 1000 >&- 2>&-"
    )

    await supervisor.start(shell(script))

    await eventually(lambda: "worker   | last" in lines_of(log))
    assert lines_of(log) == ["worker   | one", "worker   | two", f"worker   | {long}", "worker   | last"]


async def test_stop_leaves_no_process_and_none_that_a_program_started(
    supervisor: Supervisor, log: LineLog, tmp_path: Path
) -> None:
    script = f"sleep 1000 & echo $! > {tmp_path}/grandchild; echo ready; wait"
    worker = await supervisor.start(shell(script))
    await eventually(lambda: "worker   | ready" in lines_of(log))
    grandchild = int((tmp_path / "grandchild").read_text())
    child = worker.process_id
    assert child is not None

    await supervisor.stop()

    assert is_gone(child)
    await eventually(lambda: is_gone(grandchild))


async def test_a_program_that_ignores_its_stop_signal_is_killed(supervisor: Supervisor, log: LineLog) -> None:
    stubborn = "trap '' TERM; echo ready; while :; do read _ < /dev/zero; done"
    worker = await supervisor.start(shell(stubborn, stop_seconds=0.2))
    await eventually(lambda: "worker   | ready" in lines_of(log))
    child = worker.process_id
    assert child is not None

    await supervisor.stop()

    assert is_gone(child)
    assert "lorebus  | worker did not end on SIGTERM" in lines_of(log)


async def test_stop_does_not_wait_for_the_next_start_of_a_crashed_program(
    supervisor: Supervisor,
) -> None:
    worker = await supervisor.start(shell("exit 1"))
    await eventually(lambda: worker.ends == 4)

    await supervisor.stop(worker)

    assert worker.ends == 4


async def test_a_program_that_does_not_exist_is_refused_at_once(supervisor: Supervisor) -> None:
    with pytest.raises(FileNotFoundError):
        await supervisor.start(Program("worker", ("/no/such/program",)))


KEEPS_ONE_UP = """
import asyncio, pathlib, sys
from lorebus_ops.line_log import LineLog
from lorebus_ops.processes import Program
from lorebus_ops.supervisor import Supervisor

async def main():
    supervisor = Supervisor(LineLog(pathlib.Path(sys.argv[1])))
    worker = await supervisor.start(Program("worker", ("sleep", "1000")))
    print(worker.process_id, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_no_program_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    keeper = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", KEEPS_ONE_UP, str(tmp_path / "lorebus.log")),
        stdout=asyncio.subprocess.PIPE,
    )
    assert keeper.stdout is not None
    worker = int(await keeper.stdout.readline())
    assert not is_gone(worker)

    keeper.send_signal(signal.SIGKILL)
    await keeper.communicate()

    await eventually(lambda: is_gone(worker))
