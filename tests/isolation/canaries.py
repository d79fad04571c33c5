"""Canaries: words that stand in every text of the test, each of which may be seen by some askers and not by others.

The rule that must not break: who may see what is said here anew, from SPEC.md section 6, without the product's code.
"""

import re
import string
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Literal

PREFIX: Final = "cnry"
LETTERS: Final = 8
_CANARY: Final = re.compile(rb"cnry[a-z]{8}")

AskerKind = Literal["organization", "principal", "none", "end_user", "actor"]
"""`principal` is an organization that asks for one principal's entries alone, or without reference for shared ones."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose text it is; without principal it is shared, and nobody's where nobody could say who the user was."""

    organization: str
    config: str
    principal: str | None
    nobodys: bool = False


@dataclass(frozen=True, slots=True)
class Asker:
    """Who is answered; without config it is the organization as a whole."""

    organization: str
    config: str | None
    kind: AskerKind
    ref: str | None = None


def may_see(asker: Asker, owner: Owner) -> bool:
    """The table of SPEC.md section 6, and what an organization asked for."""
    if owner.organization != asker.organization or asker.config not in {None, owner.config}:
        return False
    if asker.kind == "organization":
        return True
    if owner.nobodys:
        return False
    if asker.kind == "principal":
        return owner.principal == asker.ref
    shared, own = owner.principal is None, asker.ref is not None and owner.principal == asker.ref
    return {"none": shared, "end_user": own, "actor": shared or own}[asker.kind]


@dataclass(frozen=True, slots=True)
class Leak:
    """A canary that was shown to somebody who may not see it; `place` says in which answer."""

    place: str
    asker: Asker
    owner: Owner

    @property
    def crosses_organizations(self) -> bool:
        """Whether the text is another organization's."""
        return self.owner.organization != self.asker.organization

    @property
    def shows_text(self) -> bool:
        """Whether it is a text; else the other organization was only named."""
        return self.owner.config != ""


class Ledger:
    """All canaries of a run with their owners."""

    def __init__(self) -> None:
        self._owners: dict[bytes, Owner] = {}
        # Of a million texts few have an owner of their own.
        self._same: dict[Owner, Owner] = {}

    def mint(self, owner: Owner) -> str:
        """A word that is in no other text."""
        number, letters = len(self._owners), ""
        for _ in range(LETTERS):
            number, letter = divmod(number, len(string.ascii_lowercase))
            letters = string.ascii_lowercase[letter] + letters
        word = PREFIX + letters
        self._owners[word.encode()] = self._same.setdefault(owner, owner)
        return word

    def found(self, answer: bytes) -> frozenset[bytes]:
        """The canaries that stand in these bytes."""
        return frozenset(_CANARY.findall(answer))

    def owner(self, canary: bytes) -> Owner:
        """Whose text a canary stands in.

        Raises:
            KeyError: it is none of this run's.
        """
        return self._owners[canary]

    def leaks(
        self, place: str, asker: Asker, found: Iterable[bytes], *, sent: Collection[bytes] = ()
    ) -> list[Leak]:
        """Those that the asker may not see and did not send itself."""
        owners = (self._owners[canary] for canary in found if canary not in sent)
        return [Leak(place, asker, owner) for owner in owners if not may_see(asker, owner)]
