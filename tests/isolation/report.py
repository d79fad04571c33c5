"""Makes the section of `docs/isolation-report.md` about the search, from the lines that its runs wrote.

`python -m tests.isolation.report LOG docs/isolation-report.md` puts the section into the page, in the place of the one
that is there, and leaves all else as it is.

The rule that must not break: a run that found something stays in the report.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

Line = Mapping[str, Any]

HEADING: Final = "## The search for foreign texts"
TITLE: Final = "# Isolation report\n"
INTRODUCTION: Final = """\
Three organizations that share every id they can choose (agent configs, sessions, events, idempotency keys, names of
people that are made to be taken for each other) are driven at random over HTTP, MCP and the bus, on all services as
processes of their own. Each text has a canary, and every byte of every answer is searched for canaries. Who may see
which is said in the test anew, from the specification alone. Written by `python -m tests.isolation.report` from what
the runs recorded; `make isolation` does a run of a million operations in one go. Below, each run is one of
a seed, so that any can be done again by itself.
"""
_COLUMNS: Final = (
    "| run | seed | operations | answers searched | canaries shown to their own | foreign | of other organizations"
    " | seconds | date |"
)


def section(lines: Iterable[Line]) -> str:
    """The section as Markdown: a row for each run, and what the longest run did."""
    runs = list(lines)
    longest = max(runs, key=lambda run: int(run["operations"]))
    return "\n".join(
        [
            HEADING,
            "",
            INTRODUCTION,
            _COLUMNS,
            "|---|---:|---:|---:|---:|---:|---:|---:|---|",
            *map(_row, runs),
            "",
            *_sums(runs),
            "",
            f"The longest run, by operation: {_told(longest['by_operation'])}.",
            "",
            f"By status of the answers: {_told(longest['by_status'])}.",
            "",
        ]
    )


def _sums(runs: Sequence[Line]) -> Iterator[str]:
    """What runs of one kind come to together."""
    for name in dict.fromkeys(run["name"] for run in runs):
        alike = [run for run in runs if run["name"] == name]
        operations, foreign = (sum(int(run[key]) for run in alike) for key in ("operations", "foreign"))
        yield f"Together {name}: {_number(operations)} operations, {_number(foreign)} foreign texts.  "


def updated(page: str, written: str) -> str:
    """The page with this section in the place of the one that it had, or at its end."""
    lines = iter(page.splitlines(keepends=True))
    before = "".join(takewhile(lambda line: line.rstrip() != HEADING, lines))
    rest = list(lines)
    ends = next((n for n, line in enumerate(rest) if line.startswith("## ")), len(rest))
    parts = (before or TITLE, written, "".join(rest[ends:]))
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def read(path: Path) -> Iterator[Line]:
    """The lines of a log."""
    for line in path.read_text().splitlines():
        yield json.loads(line)


def _row(run: Line) -> str:
    found = f"**{run['foreign']}**" if run["foreign"] else "0"
    others = f"**{run['of_other_organizations']}**" if run["of_other_organizations"] else "0"
    after = run["first_leak_after"]
    name = run["name"] if after is None else f"{run['name']} (first after {_number(after)})"
    cells = (
        name,
        run["seed"],
        *(_number(run[key]) for key in ("operations", "answers", "own")),
        found,
        others,
        _number(round(run["seconds"])),
        str(run["at"])[:10],
    )
    return f"| {' | '.join(map(str, cells))} |"


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {_number(count)}" for name, count in counts.items())


def _number(count: int) -> str:
    """Thousands apart, as the other pages have them."""
    return f"{count:,}".replace(",", " ")


if __name__ == "__main__":
    log, document = map(Path, sys.argv[1:])
    page = document.read_text() if document.exists() else TITLE
    document.write_text(updated(page, section(read(log))))
