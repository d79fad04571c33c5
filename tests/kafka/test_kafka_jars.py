import subprocess
import sys
from pathlib import Path
from typing import Final

FETCHES: Final = """
import sys
from pathlib import Path
from lorebus_ops.kafka_jars import jars_folder
print(jars_folder(cache=Path(sys.argv[1])))
"""


def test_two_that_fetch_into_an_empty_cache_at_once_get_the_same_jars(tmp_path: Path) -> None:
    command = (sys.executable, "-c", FETCHES, str(tmp_path))

    fetching = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [one.communicate()[0].strip() for one in fetching]

    assert [one.returncode for one in fetching] == [0, 0]
    assert answers[0] == answers[1]
    assert list(Path(answers[0]).glob("kafka-clients-*.jar"))
