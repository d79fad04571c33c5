"""What a soak is told as: answer times and resident sizes over time, as figures, a text and a part of a page."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.bench.resident import Resident, growth
from tests.bench.samples import percentile
from tests.bench.soak_users import Answered
from tests.bench.tables import amount, markdown_table, terminal_table

SOAK_FILE: Final = "soak.json"
BUCKET_SECONDS: Final = 5
_LOOKS_PER_BUCKET: Final = 10
_SHOWN_COMPLAINTS: Final = 20


def told(answered: Answered, resident: Resident) -> dict[str, Any]:
    """The figures, as JSON."""
    return {
        "requests": len(answered.answers),
        "answers": _all_answers(answered),
        "over_time": _over_time(answered),
        "resident": {
            "moments": [round(moment, 1) for moment in resident.moments[::_LOOKS_PER_BUCKET]],
            "megabytes": {
                name: [round(value, 2) for value in values[::_LOOKS_PER_BUCKET]]
                for name, values in resident.megabytes.items()
            },
            "growth": {name: growth(resident.moments, values) for name, values in resident.megabytes.items()},
        },
    }


def soak_text(results: Mapping[str, Any]) -> str:
    """For the terminal."""
    return "\n\n".join(
        [
            _requests(results),
            *(terminal_table(header, rows) for header, rows in _tables(results)),
            "\n".join([_verdict(results), *results["complaints"][:_SHOWN_COMPLAINTS]]),
        ]
    )


def soak_markdown(results: Mapping[str, Any]) -> str:
    """For the page."""
    began, commit = (results["environment"][name] for name in ("began", "commit"))
    return "\n\n".join(
        [
            f"{_requests(results)}, begun {began} at commit {commit}. {_verdict(results)}",
            *(markdown_table(header, rows) for header, rows in _tables(results)),
        ]
    )


def _tables(results: Mapping[str, Any]) -> list[tuple[Sequence[str], Sequence[Sequence[str]]]]:
    answers = [
        (kind, *(amount(one[field]) for field in ("count", "p50", "p99", "highest")))
        for kind, one in results["answers"].items()
    ]
    sizes = [(name, *map(amount, one.values())) for name, one in results["resident"]["growth"].items()]
    return [
        (("answers", "count", "p50 ms", "p99 ms", "highest ms"), answers),
        (("resident, MB", "after warm-up", "at the end", "more an hour"), sizes),
    ]


def _requests(results: Mapping[str, Any]) -> str:
    return f"{results['requests']} requests in {results['minutes']:g} minutes"


def _verdict(results: Mapping[str, Any]) -> str:
    found = len(results["complaints"])
    return f"The checker complains of {found}:" if found else "The checker has no complaint."


def _all_answers(answered: Answered) -> dict[str, dict[str, float]]:
    by_kind = defaultdict[str, list[float]](list)
    for _, kind, milliseconds in answered.answers:
        by_kind[kind].append(milliseconds)
    return {
        kind: {
            "count": len(values),
            "p50": round(percentile(values, 50), 3),
            "p99": round(percentile(values, 99), 3),
            "highest": round(max(values), 3),
        }
        for kind, values in sorted(by_kind.items())
    }


def _over_time(answered: Answered) -> dict[str, list[dict[str, float]]]:
    buckets = defaultdict[tuple[str, int], list[float]](list)
    for moment, kind, milliseconds in answered.answers:
        buckets[kind, int(moment // BUCKET_SECONDS)].append(milliseconds)
    found: dict[str, list[dict[str, float]]] = {}
    for (kind, bucket), values in sorted(buckets.items()):
        found.setdefault(kind, []).append(
            {
                "at": bucket * BUCKET_SECONDS,
                "p50": round(percentile(values, 50), 3),
                "p99": round(percentile(values, 99), 3),
            }
        )
    return found
