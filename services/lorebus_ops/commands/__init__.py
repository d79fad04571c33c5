"""The commands of operators: what each is called, its options, and its help with examples.

The rule that must not break: importing these is quick, so each command imports the module that does its work itself.
"""

from collections.abc import Callable, Mapping
from typing import Final

import typer

from lorebus_ops.commands import bench, dlq, doctor, lag, memory, runs, tail, topics

GROUPS: Final[Mapping[str, typer.Typer]] = {
    "topics": topics.app,
    "runs": runs.app,
    "dlq": dlq.app,
    "memory": memory.app,
}
COMMANDS: Final[Mapping[str, tuple[Callable[..., None], str]]] = {
    "doctor": (doctor.doctor, doctor.EXAMPLES),
    "lag": (lag.lag, lag.EXAMPLES),
    "tail": (tail.tail, tail.EXAMPLES),
    "bench": (bench.bench, bench.EXAMPLES),
}
"""Commands that stand by themselves, each with the examples below its help."""
