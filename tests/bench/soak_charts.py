"""The charts of a soak, as PNG files: answer times and resident sizes over time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bench.charts import kept, new_chart


def draw_soak(results: Mapping[str, Any], folder: Path) -> None:
    """Both charts."""
    figure, axes = new_chart()
    for kind, points in results["over_time"].items():
        axes.plot([point["at"] / 60 for point in points], [point["p99"] for point in points], label=kind)
    axes.set(xlabel="minutes", ylabel="p99 of 5 seconds, ms", yscale="log", title="Answer times over time")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="x-small", ncols=3)
    kept(figure, folder / "soak-latency.png")
    figure, axes = new_chart()
    resident = results["resident"]
    for name, megabytes in resident["megabytes"].items():
        per_hour = resident["growth"][name]["per_hour"]
        minutes = [moment / 60 for moment in resident["moments"]]
        axes.plot(minutes, megabytes, label=f"{name}: {per_hour:+.1f} MB an hour")
    axes.set(xlabel="minutes", ylabel="resident size, MB", title="Resident size over time", ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend(fontsize="x-small")
    kept(figure, folder / "soak-resident.png")
