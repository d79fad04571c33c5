"""The jars of Apache Kafka, brought once by Maven as `deploy/kafka/pom.xml` pins them."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from lorebus_ops.errors import StackError

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
    if not folder.exists():
        _fetch(pom, folder)
    return folder


def _fetch(pom: Path, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Renamed when whole: a fetch that was interrupted, or a second one at the same time, leaves nothing half.
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        command = (
            "mvn",
            "-q",
            "-B",
            "-f",
            str(pom),
            "dependency:copy-dependencies",
            f"-DoutputDirectory={made}/jars",
        )
        done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - Fixed words.
        if done.returncode != 0:
            raise StackError(
                f"Maven could not bring Apache Kafka: {done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        if not folder.exists():
            (Path(made) / "jars").rename(folder)
