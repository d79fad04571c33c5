"""What `lorebus topics` does."""

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Final

import typer

from lorebus_kit.topic_state import TopicFault, TopicFaultKind, WantedTopics, alter_topics, topic_faults
from lorebus_kit.topics import apply_topics
from lorebus_ops.answers import carried_out, say, say_json, say_table
from lorebus_ops.errors import EXIT_FAILED

MENDED_SECONDS: Final = 10.0


def check_wanted(
    servers: str, *, partitions: int, replication_factor: int, prefix: str, as_json: bool
) -> None:
    """Tell what is wrong with the topics.

    Raises:
        typer.Exit: 1, something is; 3, the broker is away.
    """
    wanted = WantedTopics(partitions, replication_factor, prefix)
    _tell(carried_out(topic_faults(servers, wanted)), as_json=as_json)


def apply_wanted(
    servers: str, *, partitions: int, replication_factor: int, prefix: str, alter: bool, as_json: bool
) -> None:
    """Make what is missing and, where that is asked for, mend what is there; tell what is left.

    Raises:
        typer.Exit: 1, something is left; 3, the broker is away.
    """
    wanted = WantedTopics(partitions, replication_factor, prefix)
    _tell(carried_out(_apply(servers, wanted, alter=alter)), as_json=as_json)


async def _apply(servers: str, wanted: WantedTopics, *, alter: bool) -> tuple[TopicFault, ...]:
    await apply_topics(
        servers,
        partitions=wanted.partitions,
        replication_factor=wanted.replication_factor,
        prefix=wanted.prefix,
    )
    faults = await topic_faults(servers, wanted)
    if alter and faults:
        left = set(await alter_topics(servers, faults))
        faults = await topic_faults(servers, wanted)
        until = monotonic() + MENDED_SECONDS
        # Apache Kafka confirms a change a moment before its brokers tell of it.
        while not left.issuperset(faults) and monotonic() < until:
            await asyncio.sleep(0.1)
            faults = await topic_faults(servers, wanted)
    # What was made a moment ago may not be known to every broker yet.
    return tuple(fault for fault in faults if fault.kind is not TopicFaultKind.MISSING)


def _tell(faults: Sequence[TopicFault], *, as_json: bool) -> None:
    if as_json:
        say_json({"ok": not faults, "faults": faults})
    elif faults:
        say_table(
            ("topic", "what", "should be", "is", "what to do"),
            [(one.topic, one.name, one.wanted, one.found, one.remedy) for one in faults],
        )
    else:
        say("the topics are there, and as they should be")
    if faults:
        raise typer.Exit(EXIT_FAILED)
