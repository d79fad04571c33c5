import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from lorebus_ops.made_once import made_once

MAKES_SLOWLY: Final = """
import sys, time
from pathlib import Path
from lorebus_ops.made_once import made_once

def make(made):
    made.mkdir()
    with open(sys.argv[2], "a") as log:
        log.write("made\\n")
    print("making", flush=True)
    time.sleep(float(sys.argv[3]))
    (made / "last").touch()

folder = Path(sys.argv[1])
made_once(folder, make, is_whole=Path.is_dir)
assert (folder / "last").exists()
"""


def maker(folder: Path, log: Path, seconds: float) -> subprocess.Popen[bytes]:
    command = (sys.executable, "-c", MAKES_SLOWLY, str(folder), str(log), str(seconds))
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def test_many_that_want_it_at_once_have_it_made_once(tmp_path: Path) -> None:
    folder, log = tmp_path / "deep" / "folder", tmp_path / "log"

    makers = [maker(folder, log, 0.3) for _ in range(6)]

    for process in makers:
        process.communicate()
    assert [process.returncode for process in makers] == [0] * 6
    assert log.read_text() == "made\n"
    assert sorted(path.name for path in folder.parent.iterdir()) == [".folder.lock", "folder"]


def test_one_that_was_killed_midway_leaves_it_to_the_next(tmp_path: Path) -> None:
    folder, log = tmp_path / "folder", tmp_path / "log"
    killed = maker(folder, log, 600)
    assert killed.stdout is not None
    killed.stdout.readline()
    waiting = maker(folder, log, 0)

    killed.send_signal(signal.SIGKILL)
    killed.communicate()

    waiting.communicate()
    assert waiting.returncode == 0
    assert log.read_text() == "made\nmade\n"


def test_what_is_there_and_not_whole_is_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "half").touch()

    def make(made: Path) -> None:
        made.mkdir()
        (made / "last").touch()

    made_once(folder, make, is_whole=lambda made: (made / "last").exists())

    assert [path.name for path in folder.iterdir()] == ["last"]
