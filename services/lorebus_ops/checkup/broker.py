"""Does the broker answer, at the addresses too that it names itself, and are the topics as they should be?"""

import asyncio
import contextlib
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from lorebus_kit.cluster import BrokerAwayError, brokers_told
from lorebus_kit.topic_state import TopicFault, TopicFaultKind, WantedTopics, topic_faults
from lorebus_ops.checkup.finding import Finding, good, skipped, unreachable, wrong

CONNECT_SECONDS: Final = 5.0


async def check_broker(bootstrap_servers: str, wanted: WantedTopics) -> tuple[Finding, ...]:
    """What is wrong with the broker and its topics."""
    try:
        # Who is asked anything else is asked at these addresses, and would only be found away.
        brokers = await brokers_told(bootstrap_servers)
        deaf = [f"{host}:{port}" for host, port in brokers if not await _answers(host, port)]
        if deaf:
            return (_advertised(bootstrap_servers, deaf), _not_looked_at())
        topics = _topics(await topic_faults(bootstrap_servers, wanted))
    except BrokerAwayError as error:
        return (_away(error), _not_looked_at())
    return (
        good(
            "broker", f"{bootstrap_servers} answers, and so does each broker that it names ({len(brokers)})"
        ),
        *topics,
    )


def _away(error: BrokerAwayError) -> Finding:
    return unreachable(
        *("broker", "away", f"nobody answers as Kafka does: {error}"),
        "start the broker, or mend host and port in LOREBUS_BOOTSTRAP_SERVERS, or the firewall in between",
    )


def _advertised(bootstrap_servers: str, deaf: Sequence[str]) -> Finding:
    says = f"the broker at {bootstrap_servers} sends its clients to {', '.join(deaf)}, where nobody answers"
    return unreachable(
        *("broker", "advertised_address", says),
        "set its advertised.listeners to addresses that can be reached from here",
    )


def _not_looked_at() -> Finding:
    return skipped("topics", "the broker has to be mended first")


def _topics(faults: Sequence[TopicFault]) -> list[Finding]:
    if not faults:
        return [good("topics", "all are there, and as they should be")]
    in_order = sorted(faults, key=lambda one: (one.kind, one.name, one.wanted, one.found, one.topic))
    return [
        _faulty(list(alike))
        for _, alike in groupby(in_order, key=lambda one: (one.kind, one.name, one.wanted, one.found))
    ]


def _faulty(alike: Sequence[TopicFault]) -> Finding:
    first = alike[0]
    names = ", ".join(one.topic for one in alike)
    if first.kind is TopicFaultKind.MISSING:
        return wrong("topics", first.kind.value, f"missing: {names}", first.remedy)
    says = f"{first.name} should be {first.wanted} and is {first.found}: {names}"
    return wrong("topics", first.kind.value, says, first.remedy)


async def _answers(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
