"""Which dead letters a command is about."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

import typer

if TYPE_CHECKING:
    from lorebus_kit.letters import DeadTopic, Letter


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Conditions that a letter meets all together; None and () stand for any."""

    places: tuple[str, ...] = ()
    topic: str | None = None
    group: str | None = None
    error_type: str | None = None
    organization: UUID | None = None
    event_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None

    @classmethod
    def of(
        cls,
        places: Sequence[str] | None,
        *,
        topic: str | None = None,
        group: str | None = None,
        error_type: str | None = None,
        organization: UUID | None = None,
        event_id: UUID | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> "LetterFilter":
        """The filter that options say.

        Raises:
            typer.BadParameter: a place is no letter, or there is no such topic or group.
        """
        from lorebus_kit.letters import LetterPlace  # noqa: PLC0415 - Slow to import.

        try:
            told = tuple(str(LetterPlace.read(place)) for place in places or ())
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
        made = cls(told, topic, group, error_type, organization, event_id, since, until)
        if not made.dead_topics():
            raise typer.BadParameter("there is no dead-letter topic of this topic and group")
        return made

    def refuse_everything(self, *, unless: bool) -> None:
        """Ask for `--all` where nothing says which letters.

        Raises:
            typer.BadParameter: nothing does.
        """
        if self == LetterFilter() and not unless:
            raise typer.BadParameter("say which letters, or give --all")

    def dead_topics(self) -> "tuple[DeadTopic, ...]":
        """The topics in which such letters are."""
        from lorebus_kit.letters import DEAD_TOPICS  # noqa: PLC0415 - Slow to import.

        named = {place.split("/", 1)[0] for place in self.places}
        return tuple(
            dead
            for dead in DEAD_TOPICS
            if self.topic in {None, dead.name, dead.origin.name}
            and self.group in {None, dead.group}
            and (not named or dead.name in named)
        )

    def takes(self, letter: "Letter") -> bool:
        """Whether the letter meets all conditions."""
        return (
            (not self.places or str(letter.place) in self.places)
            and self.error_type in {None, letter.told.get("error-type")}
            and self.organization in {None, letter.organization_uuid}
            and self.event_id in {None, letter.event_id}
            and (self.since is None or letter.at >= self.since)
            and (self.until is None or letter.at <= self.until)
        )
