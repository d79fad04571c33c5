"""The jars of Apache Kafka, brought once by Maven as `deploy/kafka/pom.xml` pins them."""

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Final

from lorebus_ops.errors import StackError
from lorebus_ops.made_once import made_once

REPOSITORY: Final = Path(__file__).parents[2]
POM: Final = REPOSITORY / "deploy" / "kafka" / "pom.xml"
CACHE: Final = REPOSITORY / ".cache" / "kafka"


def jars_folder(pom: Path = POM, cache: Path = CACHE) -> Path:
    """The folder with the jars; fetched when the pom changed since, in about ten seconds.

    Raises:
        StackError: there is no Maven or no Java, or Maven could not bring them.
    """
    for tool, wanted in (("java", "Java 17 or later"), ("mvn", "Maven")):
        if shutil.which(tool) is None:
            raise StackError(f"Apache Kafka needs {wanted}, and there is no `{tool}`")
    folder = cache / hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    made_once(folder, lambda made: _fetch(pom, made), is_whole=Path.is_dir)
    return folder


def _fetch(pom: Path, target: Path) -> None:
    goal = ("dependency:copy-dependencies", f"-DoutputDirectory={target}")
    command = ("mvn", "-q", "-B", "-f", str(pom), *goal)
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - Fixed words.
    if done.returncode != 0:
        raise StackError(f"Maven could not bring Apache Kafka: {done.stdout[-2000:]}{done.stderr[-2000:]}")
