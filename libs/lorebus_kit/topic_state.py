"""Topics as they are beside topics as they should be, and mending what a broker lets be mended.

The rule that must not break: nothing is altered but what was found wrong. More partitions are never taken back, so
they are only made where somebody asked for that.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError, for_code

from lorebus_kit.cluster import TopicForm, administering, topics_there
from lorebus_kit.topics import DEFAULT_PARTITIONS, topic_names, topic_settings

_SET_ON_THE_TOPIC: Final = frozenset({1, 5})
"""Where the broker says that a topic's setting comes from: set on the topic itself (Apache Kafka says 1)."""
_MOST_BYTES: Final = "max.message.bytes"


class TopicFaultKind(StrEnum):
    """What can be wrong with a topic."""

    MISSING = "missing"
    PARTITIONS = "too_few_partitions"
    REPLICAS = "replication_factor"
    SETTING = "setting"


@dataclass(frozen=True, slots=True)
class TopicFault:
    """One thing wrong with a topic: what it should be, what it is, and what to do."""

    topic: str
    kind: TopicFaultKind
    name: str
    wanted: str
    found: str
    remedy: str


@dataclass(frozen=True, slots=True)
class WantedTopics:
    """How topics should be; more partitions and more copies are as good."""

    partitions: int = DEFAULT_PARTITIONS
    replication_factor: int = 1
    prefix: str = ""


async def topic_faults(bootstrap_servers: str, wanted: WantedTopics) -> tuple[TopicFault, ...]:
    """All that is wrong with the topics, in the order of `topic_names`.

    Raises:
        BrokerAwayError: the broker does not answer.
    """
    async with administering(bootstrap_servers) as admin:
        there = await topics_there(admin)
        names = topic_names(wanted.prefix)
        settings = await _settings(admin, [name for name in names if name in there])
    return tuple(
        fault for name in names for fault in _faults(name, there.get(name), settings.get(name), wanted)
    )


async def alter_topics(bootstrap_servers: str, faults: Sequence[TopicFault]) -> tuple[TopicFault, ...]:
    """Make more partitions and set settings; gives the faults that this broker did not let be mended.

    Raises:
        BrokerAwayError: the broker does not answer.
    """
    of_topics: dict[tuple[str, TopicFaultKind], list[TopicFault]] = {}
    for fault in faults:
        of_topics.setdefault((fault.topic, fault.kind), []).append(fault)
    left: list[TopicFault] = []
    async with administering(bootstrap_servers) as admin:
        for together in of_topics.values():
            try:
                is_mended = await _alter(admin, together)
            except IncompatibleBrokerVersion:
                is_mended = False
            if not is_mended:
                left.extend(together)
    return tuple(left)


async def _alter(admin: AIOKafkaAdminClient, faults: Sequence[TopicFault]) -> bool:
    """Mend faults of one topic and one kind."""
    topic = faults[0].topic
    match faults[0].kind:
        case TopicFaultKind.PARTITIONS:
            await admin.create_partitions({topic: NewPartitions(int(faults[0].wanted))})
        case TopicFaultKind.SETTING:
            # Kafka takes the whole of a topic's settings at once: what is not named here falls back to its default.
            kept = (await _settings(admin, [topic], only_set=True))[topic]
            changed = {**kept, **{fault.name: fault.wanted for fault in faults}}
            answers = await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, changed)])
            for answer in answers:
                for code, *_ in answer.resources:
                    _raise_for(code)
        case _:
            return False
    return True


def _raise_for(code: int) -> None:
    if code:
        error: type[KafkaError] = for_code(code)
        raise error


async def _settings(
    admin: AIOKafkaAdminClient, names: Sequence[str], *, only_set: bool = False
) -> Mapping[str, Mapping[str, str]]:
    """The settings of topics; with `only_set` only those that were set on the topic itself."""
    if not names:
        return {}
    answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in names])
    return {
        name: {
            setting: value
            for setting, value, _, source, *_ in entries
            if not only_set or int(source) in _SET_ON_THE_TOPIC
        }
        for answer in answers
        for _, _, _, name, entries in answer.resources
    }


def _faults(
    name: str, form: TopicForm | None, settings: Mapping[str, str] | None, wanted: WantedTopics
) -> Iterator[TopicFault]:
    if form is None:
        yield TopicFault(
            name, TopicFaultKind.MISSING, "topic", "there", "missing", "make it: `lorebus topics apply`"
        )
        return
    if form.partitions < wanted.partitions:
        yield TopicFault(
            *(name, TopicFaultKind.PARTITIONS, "partitions", str(wanted.partitions), str(form.partitions)),
            "make more: `lorebus topics apply --alter`; or say what is enough: `--partitions`",
        )
    if form.replicas < wanted.replication_factor:
        yield TopicFault(
            *(name, TopicFaultKind.REPLICAS, "replication factor", str(wanted.replication_factor)),
            str(form.replicas),
            "move it with kafka-reassign-partitions.sh: no client can change this in place",
        )
    for setting, value in topic_settings(name).items():
        found = (settings or {}).get(setting)
        if found is not None and not _is_as_good(setting, found, value):
            yield TopicFault(
                *(name, TopicFaultKind.SETTING, setting, value, found),
                "set it: `lorebus topics apply --alter`",
            )


def _is_as_good(setting: str, found: str, wanted: str) -> bool:
    return int(found) >= int(wanted) if setting == _MOST_BYTES else found == wanted
