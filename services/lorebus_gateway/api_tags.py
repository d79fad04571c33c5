"""Under which heading the OpenAPI document shows a route.

The rule that must not break: the first path that fits counts, so what is narrower stands first.
"""

import re
from typing import Final, NamedTuple


class Tag(NamedTuple):
    """A heading, and the paths below it."""

    name: str
    description: str
    paths: re.Pattern[str]


TAGS: Final = (
    Tag(
        "agent sessions",
        "What a session that runs may do, with its own token.",
        re.compile("/api/agents/sessions/"),
    ),
    Tag(
        "sessions",
        "What a session runtime tells: a session begins, ends, is rated.",
        re.compile("/api/app/agents/sessions"),
    ),
    Tag(
        "erase and move",
        "All that is kept of somebody taken away; an agent config's memory as a file, and back.",
        re.compile("/api/app/agents/memory/(eras|export|import)"),
    ),
    Tag(
        "lessons",
        "What sessions teach: tried, explained, released.",
        re.compile(r"/api/app/agents/memory/(distill/|\{entry_id\}/)"),
    ),
    Tag("memory", "What is remembered, and how it changes.", re.compile("/api/app/agents/memory")),
    Tag("recalls", "What a load handed out, and why.", re.compile("/api/app/agents/recalls")),
    Tag("API keys", "Who may ask for an organization.", re.compile("/api/app/organization/keys")),
    Tag(
        "settings",
        "Of an organization and of its agent configs.",
        re.compile("/api/app/(organization|agents/configs)"),
    ),
    Tag("workflows", "Runs of all types: started, followed, listed.", re.compile("/api/workflows")),
)


def tag_of(path: str) -> str:
    """The heading of a route.

    Raises:
        LookupError: none fits; a new kind of route needs one.
    """
    for tag in TAGS:
        if tag.paths.match(path):
            return tag.name
    raise LookupError(f"no tag of the OpenAPI document fits {path}")
