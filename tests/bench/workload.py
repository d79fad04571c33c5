"""The work that everything measured does: POSTs of memories made of real lessons' words, the same for the same seed.

About 200 characters a memory, spread over agent configs and principals; one in five repeats an earlier one of its
scope (PERFORMANCE.md, "Saves").
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

LESSONS: Final = Path(__file__).parents[1] / "data" / "lessons.json"
CONFIGS: Final = 100
PRINCIPALS: Final = 20
REPEATS: Final = 0.2
TEXT_CHARS: Final = 200
CUE_WORDS: Final = 12


class Memory(NamedTuple):
    """A text with its importance in [0.1, 1]."""

    text: str
    importance: float


@dataclass(frozen=True, slots=True)
class Post:
    """What one request saves: the memories of one principal of one agent config, both by number."""

    config: int
    principal: int
    memories: tuple[Memory, ...]


@dataclass(frozen=True, slots=True)
class SaveWork:
    """All requests of one measurement; `memories` are sent, `distinct` rows must be there afterwards."""

    posts: tuple[Post, ...]
    memories: int
    distinct: int


def save_work(*, memories: int, per_post: int, seed: int) -> SaveWork:
    """At least one POST, of `per_post` memories each, one scope after the other in a shuffled order."""
    rng = random.Random(seed)
    scopes = [(config, principal) for config in range(CONFIGS) for principal in range(PRINCIPALS)]
    rng.shuffle(scopes)
    seen: dict[tuple[int, int], list[Memory]] = {}
    posts = []
    for number in range(max(1, memories // per_post)):
        scope = scopes[number % len(scopes)]
        of_scope = seen.setdefault(scope, [])
        posts.append(Post(*scope, tuple(_next_memory(rng, of_scope) for _ in range(per_post))))
    return SaveWork(tuple(posts), len(posts) * per_post, sum(map(len, seen.values())))


def _next_memory(rng: random.Random, of_scope: list[Memory]) -> Memory:
    if of_scope and rng.random() < REPEATS:
        return rng.choice(of_scope)
    memory = new_memory(rng)
    of_scope.append(memory)
    return memory


def new_memory(rng: random.Random) -> Memory:
    """A text that nobody else has, of words of real lessons."""
    words = [f"{rng.getrandbits(64):016x}"]
    chars = len(words[0])
    while chars < TEXT_CHARS:
        words.append(rng.choice(vocabulary()))
        chars += 1 + len(words[-1])
    return Memory(" ".join(words)[:TEXT_CHARS].rstrip(), rng.randint(10, 100) / 100)


def new_memories(count: int, *, seed: int) -> Iterator[Memory]:
    """So many of them."""
    rng = random.Random(seed)
    return (new_memory(rng) for _ in range(count))


def cues(count: int, *, seed: int) -> Sequence[str]:
    """Tasks that sessions ask memory for, of the same words."""
    rng = random.Random(seed)
    return [" ".join(rng.choices(vocabulary(), k=CUE_WORDS)) for _ in range(count)]


@cache
def vocabulary() -> tuple[str, ...]:
    """The words of the real lessons as often as they come, so that common ones are common here as well."""
    lessons = json.loads(LESSONS.read_text("utf-8"))["lessons"]
    return tuple(word for lesson in lessons for word in lesson["text"].split() if word.isascii())
