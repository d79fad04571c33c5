"""What a run is published as: `bench.json`, charts, a page, and the text for the terminal.

`python -m tests.bench.publish docs/performance` makes charts and page anew from the JSON file that is there.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.bench.charts import draw_charts
from tests.bench.figures import reached
from tests.bench.page import page
from tests.bench.report import sections
from tests.bench.tables import terminal_table

FILE: Final = "bench.json"


def publish(results: Mapping[str, Any], folder: Path) -> str:
    """Write all files into the folder; the text for the terminal."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = {**results, "reached": reached(results)}
    (folder / FILE).write_text(json.dumps(whole, indent=1) + "\n", "utf-8")
    # Through the file, so that a page made now and one made later from the file are the same.
    return remake(folder)


def remake(folder: Path) -> str:
    """Make charts and page from the folder's JSON file; the text for the terminal."""
    results = json.loads((folder / FILE).read_text("utf-8"))
    made = sections(results)
    charts = draw_charts(results, folder)
    (folder / "README.md").write_text(page(results, made, charts, folder), "utf-8")
    shown = [f"{one.title}\n\n{terminal_table(one.header, one.rows)}\n" for one in made]
    return "\n".join([*shown, f"Written to {folder}: {FILE}, README.md, {', '.join(charts)}"])


if __name__ == "__main__":
    print(remake(Path(sys.argv[1])))
