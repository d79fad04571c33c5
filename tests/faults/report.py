"""Makes `docs/fault-report.md` from the lines that fault suites wrote: `python -m tests.faults.report LOG > docs/...`.

The rule that must not break: a scenario that failed once stays in the report as failed.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

Line = Mapping[str, Any]

HEAD: Final = """\
# Fault report

What was done to the whole system, how often, and what the offline checker found afterwards. Written by
`python -m tests.faults.report` from what the suite recorded; what each promise means is in
[delivery](architecture/delivery.md). Every scenario runs under load, on real processes, on a durable PostgreSQL of its
own; the checker compares what was accepted with what the database holds.
"""


def report(lines: Iterable[Line]) -> str:
    """The report as Markdown, one table for each broker, scenarios in the order of their names."""
    by_broker: dict[str, dict[str, list[Line]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        by_broker[line["broker"]][line["name"]].append(line)
    return "\n".join([HEAD, *(_section(broker, by_broker[broker]) for broker in sorted(by_broker))])


def _section(broker: str, scenarios: Mapping[str, Sequence[Line]]) -> str:
    runs = [line for found in scenarios.values() for line in found]
    injected = sum(line["injected"] for line in runs)
    days = sorted({str(line["at"])[:10] for line in runs})
    when = " to ".join(dict.fromkeys((days[0], days[-1])))
    return "\n".join(
        [
            f"## {broker}",
            "",
            f"{len(scenarios)} scenarios, {injected} faults injected, {when}.",
            "",
            "| scenario | faults injected | verdict | seeds |",
            "|---|---:|---|---|",
            *(_row(name, scenarios[name]) for name in sorted(scenarios)),
            "",
        ]
    )


def _row(name: str, runs: Sequence[Line]) -> str:
    failed = [line for line in runs if line["verdict"] != "passed"]
    verdict = (
        f"**failed** in {len(failed)} of {len(runs)} runs" if failed else "nothing lost, doubled or stuck"
    )
    seeds = ", ".join(str(seed) for seed in sorted({line["seed"] for line in runs}))
    return f"| {_sentence(name)} | {sum(line['injected'] for line in runs)} | {verdict} | {seeds} |"


def _sentence(name: str) -> str:
    """A test's name as the sentence that it is; its parameter stays in brackets."""
    words, _, parameter = name.removeprefix("test_").removesuffix("]").partition("[")
    told = words.replace("_", " ")
    return f"{told} ({parameter.replace('_', ' ')})" if parameter else told


def read(paths: Iterable[Path]) -> Iterator[Line]:
    """The lines of these logs."""
    for path in paths:
        for line in path.read_text().splitlines():
            yield json.loads(line)


if __name__ == "__main__":
    sys.stdout.write(report(read(map(Path, sys.argv[1:]))))
