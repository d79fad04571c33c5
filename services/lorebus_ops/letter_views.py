"""What `lorebus dlq list` and `lorebus dlq show` do.

The rule that must not break: a record's value, which may hold texts of memories, is shown only to whoever asks for it.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from lorebus_kit.letter_box import FoundLetter, FoundLetters, find_letters
from lorebus_kit.letters import Letter, header_fault
from lorebus_kit.run_events import run_of_letter
from lorebus_ops.answers import ago, carried_out, note, say, say_fields, say_json, say_table
from lorebus_ops.errors import RefusedError
from lorebus_ops.letter_advice import advice_on
from lorebus_ops.letter_filter import LetterFilter


def list_found(
    servers: str, wanted: LetterFilter, *, prefix: str, handled: bool, limit: int, as_json: bool
) -> None:
    """Tell of the letters that are wanted.

    Raises:
        typer.Exit: 3, the broker is away.
    """
    found = carried_out(_find(servers, wanted, prefix=prefix, handled=handled, limit=limit))
    if as_json:
        say_json({"letters": [summary(one) for one in found.letters], "is_cut": found.is_cut})
        return
    if not found.letters:
        say("no dead letters wait" if not handled else "there are no dead letters")
        return
    now = datetime.now(UTC)
    say_table(
        ("letter", "set aside", "error", "says", "organization", "event", *(["handled"] if handled else [])),
        [_row(one, now, handled=handled) for one in found.letters],
    )
    if found.is_cut:
        note(f"these are the first {limit}; there are more: give --limit, or a filter")


def show_letter(servers: str, place: str, *, prefix: str, show_text: bool, as_json: bool) -> None:
    """Tell all of one letter, its value only with `show_text`.

    Raises:
        typer.Exit: 1, there is no such letter; 3, the broker is away.
    """
    wanted = LetterFilter.of([place])
    one = carried_out(_the_one(servers, wanted, prefix))
    told = summary(one) | _details(one.letter)
    if show_text:
        told["value"] = None if one.letter.value is None else one.letter.value.decode(errors="replace")
    if as_json:
        say_json(told)
        return
    advice = told.pop("advice")
    value = told.pop("value", None)
    say_fields({name.replace("_", " "): _line(field) for name, field in told.items()})
    say("")
    say(str(advice))
    if show_text:
        say("")
        say("(a record without a value)" if value is None else str(value))


def summary(one: FoundLetter) -> dict[str, object]:
    """A letter as `list` has it in JSON."""
    letter = one.letter
    return {
        "letter": str(letter.place),
        "topic": letter.dead.origin.name,
        "group": letter.dead.group,
        "error_type": letter.told.get("error-type"),
        "error_text": letter.told.get("error-text"),
        "organization_uuid": letter.organization_uuid,
        "event_id": letter.event_id,
        "dead_lettered_at": letter.at,
        "handled": one.handled,
    }


def _details(letter: Letter) -> dict[str, object]:
    event = letter.event
    return {
        "origin": "/".join(
            letter.told.get(f"origin-{part}", "?") for part in ("topic", "partition", "offset")
        ),
        "workflow_id": run_of_letter(letter),
        "agent_config_uuid": None if event is None else event.agent_config_uuid,
        "session_uuid": getattr(event, "session_uuid", None),
        "occurred_at": None if event is None else event.occurred_at,
        "key": None if letter.key is None else letter.key.decode(errors="backslashreplace"),
        "value_bytes": len(letter.value or b""),
        "headers": {
            name: None if value is None else value.decode(errors="backslashreplace")
            for name, value in letter.headers
        },
        "fault": letter.fault or header_fault(letter.headers),
        "advice": advice_on(letter),
    }


def _row(one: FoundLetter, now: datetime, *, handled: bool) -> tuple[object, ...]:
    letter = one.letter
    return (
        *(letter.place, f"{ago(letter.at, now)} ago"),
        *(letter.told.get("error-type"), letter.told.get("error-text")),
        *(letter.organization_uuid, letter.event_id),
        *((one.handled,) if handled else ()),
    )


def _line(field: object) -> object:
    if isinstance(field, Mapping):
        return json.dumps(field, ensure_ascii=False) if field else None
    return field


async def _find(
    servers: str, wanted: LetterFilter, *, prefix: str, handled: bool, limit: int
) -> FoundLetters:
    return await find_letters(
        servers,
        prefix=prefix,
        topics=wanted.dead_topics(),
        wanted=wanted.takes,
        with_handled=handled,
        most=limit,
    )


async def _the_one(servers: str, wanted: LetterFilter, prefix: str) -> FoundLetter:
    found = await _find(servers, wanted, prefix=prefix, handled=True, limit=1)
    if not found.letters:
        raise RefusedError(f"there is no letter {wanted.places[0]}; `lorebus dlq list --handled` shows all")
    return found.letters[0]
