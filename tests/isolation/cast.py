"""Who plays: callers of all kinds, with names that are made to be taken for each other."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

NFC: Final = unicodedata.normalize("NFC", "José")
NAMES: Final = (
    "user1",
    "user10",
    "user1-x",
    "ann_lee",
    "ann-lee",
    "%",
    "\\",
    "a:b",
    "a|b",
    "bob",
    "Bob",
    NFC,
    unicodedata.normalize("NFD", NFC),
    "user1 ",
    "x" * 512,
    "x" * 511,
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a session acts for, as it is told over HTTP and on the bus."""

    kind: Literal["none", "end_user", "actor"]
    told: str | None = None

    @property
    def ref(self) -> str | None:
        """Who that is; a blank reference is nobody."""
        return None if self.told is None or not self.told.strip() else self.told

    @property
    def is_unresolved(self) -> bool:
        """Whether it is a user whom nobody could name."""
        return self.kind == "end_user" and self.ref is None

    def body(self) -> Mapping[str, str | None]:
        """The caller in JSON."""
        return {"kind": self.kind} if self.told is None else {"kind": self.kind, "ref": self.told}


NOBODY: Final = Caller("none")
UNRESOLVED: Final = tuple(Caller("end_user", told) for told in (None, "", "   "))
USERS: Final = tuple(Caller("end_user", name) for name in NAMES)
ACTORS: Final = tuple(Caller("actor", name) for name in NAMES)
PAIRS: Final = (("user1", "user10"), ("%", "user1"), ("bob", "Bob"), (NAMES[11], NAMES[12]), ("a:b", "a|b"))
"""Names of which each could be taken for the other; where one plays, so does the other."""


def cast(number: int) -> tuple[Caller, ...]:
    """Seven callers that follow from the number: nobody, one unresolved, users and actors of one pair, and others."""
    first, second = PAIRS[number % len(PAIRS)]
    other = NAMES[number // len(PAIRS) % len(NAMES)]
    return (
        NOBODY,
        Caller("end_user", first),
        Caller("actor", second),
        Caller("end_user", second),
        Caller("actor", first),
        UNRESOLVED[number % len(UNRESOLVED)],
        Caller(("end_user", "actor")[number % 2], other),
    )
