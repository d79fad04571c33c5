"""The charts of a run, as PNG files: rates with their spreads, and load times over growing sizes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.bench.figures import LOREBUS, TRIAL, column
from tests.bench.samples import Spread

Results = Mapping[str, Any]
SIZE: Final = (8.0, 4.5)
DPI: Final = 110
COLORS: Final = {
    "last_k": "tab:blue",
    "importance": "tab:green",
    "full": "tab:red",
    "pack": "tab:orange",
}


def draw_charts(results: Results, folder: Path) -> list[str]:
    """Draw what was measured; the files' names."""
    drawn = []
    if results.get("saves"):
        drawn.append(_saves(results["saves"], folder / "saves.png"))
    if results.get("loads"):
        drawn.append(_load_rates(results["loads"], folder / "loads.png"))
        drawn.append(_load_times(results["loads"][LOREBUS], folder / "load-times.png"))
    return drawn


def _saves(saves: Results, path: Path) -> str:
    figure, axes = new_chart()
    width = 0.8 / len(saves)
    for place, (name, of_name) in enumerate(saves.items()):
        spreads = [Spread.of(column(runs, "per_second")) for runs in of_name.values()]
        at = [number + place * width for number in range(len(spreads))]
        axes.bar(at, [one.median for one in spreads], width, label=name, yerr=_errors(spreads), capsize=3)
    labels = [f"{per_post} a POST" for per_post in next(iter(saves.values()))]
    axes.set_xticks([number + 0.4 - width / 2 for number in range(len(labels))], labels)
    axes.set(ylabel="memories a second, durable", title="Saves: median, lowest and highest")
    axes.legend(loc="upper left")
    return kept(figure, path)


def _load_rates(loads: Results, path: Path) -> str:
    figure, axes = new_chart()
    for name, style in ((TRIAL, "--"), (LOREBUS, "-")):
        for strategy in ("last_k", "pack"):
            line = _Line(strategy, "per_second", f"{name}: {strategy}", style)
            _draw(axes, loads.get(name, {}), line)
    axes.set(ylabel="loads a second, 8 callers", title="Loads over the bare trial's")
    return kept(_over_sizes(figure, axes), path)


def _load_times(ours: Results, path: Path) -> str:
    figure, axes = new_chart()
    for strategy in COLORS:
        _draw(axes, ours, _Line(strategy, "p50", f"{strategy}: median", "-"))
        _draw(axes, ours, _Line(strategy, "p99", f"{strategy}: p99", ":"))
    axes.set(ylabel="milliseconds, 8 callers", yscale="log", title="Load times as an agent config grows")
    return kept(_over_sizes(figure, axes), path)


class _Line(NamedTuple):
    """One strategy's figure over the sizes."""

    strategy: str
    field: str
    label: str
    style: str


def _draw(axes: Axes, of_name: Results, line: _Line) -> None:
    sizes = [size for size in of_name if line.strategy in of_name[size]]
    spreads = [Spread.of(column(of_name[size][line.strategy], line.field)) for size in sizes]
    axes.errorbar(
        [int(size) for size in sizes],
        [one.median for one in spreads],
        yerr=_errors(spreads),
        label=line.label,
        linestyle=line.style,
        color=COLORS[line.strategy],
        marker="o",
        markersize=3,
        capsize=3,
    )


def _over_sizes(figure: Figure, axes: Axes) -> Figure:
    axes.set(xscale="log", xlabel="entries in the agent config")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return figure


def _errors(spreads: Sequence[Spread]) -> list[list[float]]:
    return [
        [one.median - one.lowest for one in spreads],
        [one.highest - one.median for one in spreads],
    ]


def new_chart() -> tuple[Figure, Axes]:
    """An empty chart, without a screen."""
    figure = Figure(figsize=SIZE, dpi=DPI, layout="tight")
    return figure, figure.add_subplot()


def kept(figure: Figure, path: Path) -> str:
    """Write the chart as PNG; the file's name."""
    # Without the version in it, the same figures give the same file.
    figure.savefig(path, metadata={"Software": None})
    return path.name
