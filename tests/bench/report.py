"""The tables of a run, one for each thing that was measured; what was not measured has none."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.bench.figures import CONSUMERS, LOREBUS, RAW_DELETE, column, reached
from tests.bench.samples import Spread
from tests.bench.tables import amount, with_spread
from tests.bench.targets import HEADER, verdict_rows

Results = Mapping[str, Any]
Row = tuple[str, ...]


class Section(NamedTuple):
    """A table with its title and what to know when reading it."""

    title: str
    note: str
    header: Row
    rows: Sequence[Row]


def sections(results: Results) -> list[Section]:
    """The verdicts first, then what they come from."""
    made = [one for make in _MAKERS if (one := make(results)).rows]
    verdicts = Section("P1 to P11", _VERDICT_NOTE, HEADER, verdict_rows(reached(results)))
    return [verdicts, *made]


_VERDICT_NOTE: Final = (
    "Ratios are medians of the ratios of neighbouring measurements."
    " `aim` and `must` say which of the two is reached."
)


def _saves(results: Results) -> Section:
    rows = [
        (
            name,
            per_post,
            *(_cell(runs, field) for field in _SAVE_FIELDS),
            _sum(runs, "wrong"),
            _sum(runs, "refused"),
        )
        for name, of_name in results.get("saves", {}).items()
        for per_post, runs in of_name.items()
    ]
    header = (
        "saves",
        "a POST",
        "memories/s to durable",
        "answer p50 ms",
        "p99 ms",
        "backlog s",
        "wrong",
        "refused",
    )
    return Section("Saves", "From the first request until the last memory is committed.", header, rows)


_SAVE_FIELDS: Final = ("per_second", "answered_p50", "answered_p99", "backlog_seconds")


def _loads(results: Results) -> Section:
    rows = [
        (name, strategy, size, *(_cell(runs, field) for field in ("per_second", "p50", "p99")), _behind(runs))
        for name, of_name in results.get("loads", {}).items()
        for size, of_size in of_name.items()
        for strategy, runs in of_size.items()
    ]
    header = ("loads", "strategy", "entries", "loads/s", "p50 ms", "p99 ms", "recorded after s")
    note = (
        "8 callers. `recorded after`: how long after the last answer every recall was recorded and counted."
    )
    return Section("Loads", note, header, sorted(rows, key=lambda row: (row[0], row[1], int(row[2]))))


def _prunes(results: Results) -> Section:
    fields = ("seconds", "p99_before", "p99_meanwhile", "remaining")
    rows = [
        (name, *(_cell(results["prunes"][name], field) for field in fields))
        for name in (RAW_DELETE, LOREBUS)
        if name in results.get("prunes", {})
    ]
    header = ("prune", "seconds", "loads' p99 ms before", "meanwhile", "left")
    return Section("Prune", "Half of an agent config, while 100 loads a second go on.", header, rows)


def _floors(results: Results) -> Section:
    rows = [(name, with_spread(Spread.of(values))) for name, values in results.get("floors", {}).items()]
    return Section("Floors", "The same servers, with nothing of ours.", ("floor", "a second"), rows)


def _cold_starts(results: Results) -> Section:
    starts = results.get("cold_starts", ())
    steps = {
        "all processes ready": "ready_seconds",
        "first save and load answered": "answered_seconds",
        "the load hands out what was saved": "remembered_seconds",
    }
    rows = [(what, _cell(starts, field)) for what, field in steps.items()] if starts else []
    return Section("Cold start", "`lorebus up` in an empty folder.", ("until", "seconds"), rows)


def _resident(results: Results) -> Section:
    looks: Mapping[str, Mapping[str, float]] = results.get("resident", {})
    rows = [
        (name, *(amount(look[name]) for look in looks.values()))
        for name in looks.get("idle", {})
        if name.startswith("gateway") or name in CONSUMERS
    ]
    header = ("process", *(part if part == "idle" else f"{part}, highest" for part in looks))
    return Section("Resident size", "Megabytes of each process.", header, rows)


def _peers(results: Results) -> Section:
    rows = [_peer_row(name, told) for name, told in results.get("peers", {}).items()]
    header = ("peer", "saves/s, one by one", "in batches of 100", "what")
    return Section("Peers", "Measured after the saves, on the same PostgreSQL.", header, rows)


def _peer_row(name: str, told: Mapping[str, Any]) -> Row:
    if not told.get("installed"):
        return (name, "-", "-", str(told.get("reason", "not installed")))
    rates = (told.get("saves_per_second"), told.get("batched_per_second"))
    return (name, *("-" if rate is None else amount(rate) for rate in rates), str(told.get("what", "")))


def _cell(runs: Sequence[Mapping[str, Any]], field: str) -> str:
    return with_spread(Spread.of(column(runs, field)))


def _sum(runs: Sequence[Mapping[str, Any]], field: str) -> str:
    return amount(sum(column(runs, field)))


def _behind(runs: Sequence[Mapping[str, Any]]) -> str:
    if runs[0]["recorded_seconds"] is None:
        return "-"
    return _cell(runs, "recorded_seconds")


_MAKERS: Final[Sequence[Callable[[Results], Section]]] = (
    _saves,
    _loads,
    _prunes,
    _cold_starts,
    _resident,
    _floors,
    _peers,
)
