"""Reading the dead-letter topics from their beginning to where they end now.

The rule that must not break: memory holds at most `most` letters, however many there are. So marks are read first, and
then the letters that nobody has handled.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lorebus_kit.cluster import partitions_of
from lorebus_kit.letters import DEAD_TOPICS, DeadTopic, Handled, Letter, LetterPlace, letter_of, mark_of
from lorebus_kit.whole_topics import read_all


@dataclass(frozen=True, slots=True)
class FoundLetter:
    """A letter and what was done about it: None for one that waits."""

    letter: Letter
    handled: Handled | None


@dataclass(frozen=True, slots=True)
class FoundLetters:
    """What was found, in the order of topics, partitions and offsets; `is_cut` where there was more."""

    letters: tuple[FoundLetter, ...]
    is_cut: bool


async def find_letters(
    bootstrap_servers: str,
    *,
    prefix: str = "",
    topics: Sequence[DeadTopic] = DEAD_TOPICS,
    wanted: Callable[[Letter], bool] = lambda _letter: True,
    with_handled: bool = False,
    most: int,
) -> FoundLetters:
    """The first `most` letters of these topics that are wanted; handled ones only where they are asked for.

    Raises:
        BrokerAwayError: the broker does not answer.
    """
    there = await partitions_of(bootstrap_servers)
    places = {tp: dead for dead in topics for tp in there.get(prefix + dead.name, ())}
    marks: dict[LetterPlace, Handled] = {}
    async with read_all(bootstrap_servers, places) as records:
        async for dead, record in records:
            mark = mark_of(record, dead)
            if mark is not None:
                marks[mark.place] = mark.handled
    found: list[FoundLetter] = []
    is_cut = False
    async with read_all(bootstrap_servers, places) as records:
        async for dead, record in records:
            handled = marks.get(LetterPlace(dead.name, record.partition, record.offset))
            if mark_of(record, dead) is not None or (handled is not None and not with_handled):
                continue
            letter = letter_of(record, dead)
            if not wanted(letter):
                continue
            if len(found) == most:
                is_cut = True
                break
            found.append(FoundLetter(letter, handled))
    return FoundLetters(tuple(sorted(found, key=lambda one: one.letter.place)), is_cut)
