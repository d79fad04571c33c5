"""What `lorebus lag` does."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby

import typer

from lorebus_kit.group_lag import PartitionLag, lags
from lorebus_ops.answers import ago, carried_out, note, say_json, say_table
from lorebus_ops.errors import EXIT_FAILED


def report_lag(servers: str, *, prefix: str, most: int | None, by_partition: bool, as_json: bool) -> None:
    """Tell how far the groups are behind.

    Raises:
        typer.Exit: 1, a group is behind by more than `most`; 3, the broker is away.
    """
    found = carried_out(lags(servers, prefix=prefix))
    totals: Counter[str] = Counter()
    for one in found:
        totals[one.group] += one.lag
    over = [] if most is None else [group for group, behind in totals.items() if behind > most]
    now = datetime.now(UTC)
    if as_json:
        say_json({"groups": dict(totals), "over": over, "partitions": [_document(one, now) for one in found]})
    elif by_partition:
        say_table(
            ("group", "topic", "partition", "committed", "end", "lag", "oldest"),
            [
                (*(one.group, one.topic, one.partition, one.committed, one.end, one.lag), _age(one, now))
                for one in found
            ],
        )
    else:
        say_table(("group", "topic", "committed", "end", "lag", "oldest"), _by_topic(found, now))
    for group in over:
        note(f"{group} is {totals[group]} records behind, more than {most}")
    if over:
        raise typer.Exit(EXIT_FAILED)


def _by_topic(found: Sequence[PartitionLag], now: datetime) -> Iterator[tuple[object, ...]]:
    for (group, topic), partitions in groupby(found, key=lambda one: (one.group, one.topic)):
        ones = list(partitions)
        oldest = min((one.oldest_at for one in ones if one.oldest_at is not None), default=None)
        committed = [one.committed for one in ones if one.committed is not None]
        yield (
            *(group, topic, sum(committed) if committed else None),
            *(sum(one.end for one in ones), sum(one.lag for one in ones)),
            None if oldest is None else ago(oldest, now),
        )


def _age(one: PartitionLag, now: datetime) -> str | None:
    return None if one.oldest_at is None else ago(one.oldest_at, now)


def _document(one: PartitionLag, now: datetime) -> dict[str, object]:
    age = None if one.oldest_at is None else max(0.0, (now - one.oldest_at).total_seconds())
    return {
        "group": one.group,
        "topic": one.topic,
        "partition": one.partition,
        "committed": one.committed,
        "end": one.end,
        "lag": one.lag,
        "oldest_at": one.oldest_at,
        "oldest_age_seconds": age,
    }
