"""The page of a run: `docs/performance/README.md`, made from the results and never written by hand."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.bench.report import Section
from tests.bench.soak_report import SOAK_FILE, soak_markdown
from tests.bench.tables import markdown_table

_HEAD: Final = """# How fast it is

Made by `make bench`; change nothing here by hand. All figures are of one run on one machine, and everything in a
table was measured by turns, repetition after repetition. Absolute figures are that machine's, ratios are what counts.
A cell is the median, with the lowest and the highest in brackets.

- *Bare trial*: the least that a save and a load can be on these servers: a raw ASGI application under the same HTTP
  server, the same broker, one consumer, one `unnest` upsert a batch, its commit. No tenants, runs, counters, receipts
  or tokens.
- *Lorebus*: the processes that `lorebus up` starts, on its PostgreSQL and broker. `accept=store` is how it runs
  locally (a save is answered when PostgreSQL has it), `accept=bus` is production (when the broker has confirmed it),
  as the bare trial does.
- The load generator is a process of its own with a client of a few lines (`tests/bench/generator.py`), the same for
  all.

Again: `make bench`. A quick look:
`.venv/bin/python -m tests.bench.run --scale 0.02 --repetitions 2 --only saves,loads`.
The raw figures are in [bench.json](bench.json).
"""
_SOAK: Final = """## Soak

`make soak` writes [soak.json](soak.json): minutes of mixed load, then the offline checker.
"""
_SOAK_CHARTS: Final = """![Latency over time](soak-latency.png)
![Resident size over time](soak-resident.png)
"""


def page(results: Mapping[str, Any], sections: Sequence[Section], charts: Sequence[str], folder: Path) -> str:
    """The whole page, in Markdown."""
    first, *others = sections
    parts = [
        _HEAD,
        _sizes(results["plan"]),
        _section(first),
        *(f"![{Path(name).stem}]({name})" for name in charts),
        *map(_section, others),
        _environment(results["environment"], results),
    ]
    if (folder / SOAK_FILE).exists():
        soak = json.loads((folder / SOAK_FILE).read_text("utf-8"))
        parts += [_SOAK, soak_markdown(soak), _SOAK_CHARTS]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _sizes(plan: Mapping[str, Any]) -> str:
    """How large everything was, and that a part of the sizes is not the whole."""
    sizes = ", ".join(f"{size:,}".replace(",", " ") for size in plan["sizes"])
    told = f"Agent configs of {sizes} entries; {plan['memories']} memories saved in each measurement of saves"
    if plan["scale"] == 1.0:
        return told + "."
    return f"{told}: **{plan['scale']:g} of the full sizes**, so that no verdict below is the last word."


def _section(section: Section) -> str:
    return f"## {section.title}\n\n{section.note}\n\n{markdown_table(section.header, section.rows)}"


def _environment(told: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in told["versions"].items())
    changed = " with changes that are not committed" if told["changed"] else ""
    plan = results["plan"]
    rows = [
        ("began", f"{told['began']}, took {results['minutes']} minutes"),
        ("machine", f"{told['cpu']}, {told['cores']} cores, {told['memory_gib']} GiB"),
        ("load average when it began", ", ".join(map(str, told["load_average"]))),
        ("system", f"{told['system']}, Python {told['python']}"),
        ("data of PostgreSQL", str(told["data"])),
        ("commit", f"{told['commit']}{changed}"),
        ("plan", f"scale {plan['scale']:g}, {plan['repetitions']} repetitions; judged: {results['judged']}"),
        ("versions", versions),
    ]
    return "## Where it was measured\n\n" + markdown_table(("", ""), rows)
