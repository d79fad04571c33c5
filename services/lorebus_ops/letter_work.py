"""What `lorebus dlq replay` and `lorebus dlq drop` do: tell what, and act only where somebody said so."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple

import typer

from lorebus_kit.bus import BusProducer
from lorebus_kit.letter_box import FoundLetters, find_letters
from lorebus_kit.letters import Handled, Letter
from lorebus_kit.replaying import Refusal, decide, mark, replay
from lorebus_ops.answers import carried_out, note, say, say_json, say_table
from lorebus_ops.errors import EXIT_FAILED, RefusedError
from lorebus_ops.letter_filter import LetterFilter
from lorebus_ops.options import Stores
from lorebus_ops.system_bus import system_bus
from lorebus_ops.system_database import system_database
from lorebus_store.errors import TransientError

LETTERS_AT_ONCE: Final = 100
"""As many as the broker confirms within the producer's time, also where each is a megabyte."""

_REFUSALS: Final = {
    Refusal.ERASED: "it is about somebody, or a session, that was erased",
    Refusal.UNKNOWN_CONFIG: (
        "nobody has made its agent config known, so it would complete without effect: see `lorebus dlq show`"
    ),
    Refusal.UNREADABLE: "no consumer could read it: see `lorebus dlq show`",
    Refusal.BAD_HEADER: "no consumer could read its headers: see `lorebus dlq show`",
}


class _Fate(NamedTuple):
    """What became of a letter, or would; `why` says why nothing did."""

    letter: Letter
    done: bool
    why: str | None = None


def replay_found(
    stores: Stores, wanted: LetterFilter, *, handled: bool, limit: int, is_dry: bool, as_json: bool
) -> None:
    """Replay the letters that are wanted, or say which would be.

    Raises:
        typer.Exit: 1, at least one is not replayed; 3, a store is away.
    """
    found = carried_out(_find(stores, wanted, handled=handled, limit=limit))
    fates = carried_out(_replay(stores, [one.letter for one in found.letters], is_dry=is_dry))
    _tell(fates, found, verb="replayed", is_dry=is_dry, as_json=as_json)


def drop_found(stores: Stores, wanted: LetterFilter, *, limit: int, is_dry: bool, as_json: bool) -> None:
    """Mark the letters that are wanted as dropped, or say which would be.

    Raises:
        typer.Exit: 1, at least one is not marked; 3, the broker is away.
    """
    found = carried_out(_find(stores, wanted, handled=False, limit=limit))
    fates = carried_out(_drop(stores, [one.letter for one in found.letters], is_dry=is_dry))
    _tell(fates, found, verb="dropped", is_dry=is_dry, as_json=as_json)


async def _find(stores: Stores, wanted: LetterFilter, *, handled: bool, limit: int) -> FoundLetters:
    found = await find_letters(
        stores.bootstrap_servers,
        prefix=stores.prefix,
        topics=wanted.dead_topics(),
        wanted=wanted.takes,
        with_handled=handled,
        most=limit,
    )
    missing = set(wanted.places) - {str(one.letter.place) for one in found.letters}
    if missing and not found.is_cut:
        raise RefusedError(
            f"no such letter waits: {', '.join(sorted(missing))}; `lorebus dlq list --handled` shows all"
        )
    return found


async def _replay(stores: Stores, letters: Sequence[Letter], *, is_dry: bool) -> tuple[_Fate, ...]:
    async with system_database(stores.database_url) as database:
        decisions = await decide(letters, database)
    refused = [_Fate(one.letter, done=False, why=_REFUSALS[one.refusal]) for one in decisions if one.refusal]
    due = [one.letter for one in decisions if one.refusal is None]
    return (*await _each(stores, due, replay, is_dry=is_dry), *refused)


async def _drop(stores: Stores, letters: Sequence[Letter], *, is_dry: bool) -> tuple[_Fate, ...]:
    async def dropped(some: Sequence[Letter], bus: BusProducer) -> Sequence[TransientError | None]:
        return await mark(some, Handled.DROPPED, bus)

    return tuple(await _each(stores, letters, dropped, is_dry=is_dry))


_Deed = Callable[[Sequence[Letter], BusProducer], Awaitable[Sequence[TransientError | None]]]


async def _each(stores: Stores, letters: Sequence[Letter], deed: _Deed, *, is_dry: bool) -> list[_Fate]:
    if is_dry or not letters:
        return [_Fate(letter, done=False) for letter in letters]
    fates = []
    async with system_bus(stores) as bus:
        for some in _portions(letters):
            errors = await deed(some, bus)
            fates += [
                _Fate(letter, done=error is None, why=None if error is None else f"{error}; do it again")
                for letter, error in zip(some, errors, strict=True)
            ]
    return fates


def _portions(letters: Sequence[Letter]) -> Iterator[Sequence[Letter]]:
    for start in range(0, len(letters), LETTERS_AT_ONCE):
        yield letters[start : start + LETTERS_AT_ONCE]


def _tell(fates: Sequence[_Fate], found: FoundLetters, *, verb: str, is_dry: bool, as_json: bool) -> None:
    failed = [fate for fate in fates if fate.why is not None]
    rest = len(fates) - len(failed)
    if as_json:
        say_json(
            {
                "dry_run": is_dry,
                verb: [str(fate.letter.place) for fate in fates if fate.done],
                f"would_be_{verb}": [
                    str(fate.letter.place) for fate in fates if not fate.done and fate.why is None
                ],
                "not": [{"letter": str(fate.letter.place), "why": fate.why} for fate in failed],
                "is_cut": found.is_cut,
            }
        )
    else:
        _tell_people(fates, failed)
        say(f"{rest} would be {verb}; give --yes to do it" if is_dry else f"{rest} {verb}")
    if found.is_cut:
        note("there are more than --limit: do it again for the next")
    if failed:
        raise typer.Exit(EXIT_FAILED)


def _tell_people(fates: Sequence[_Fate], failed: Sequence[_Fate]) -> None:
    if fates:
        say_table(
            ("letter", "error", "event"),
            [(fate.letter.place, fate.letter.told.get("error-type"), fate.letter.event_id) for fate in fates],
        )
    for fate in failed:
        say(f"not {fate.letter.place}: {fate.why}")
