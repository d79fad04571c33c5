"""`lorebus distill try`: a session from a file, distilled without saving anything, to see what a model would do.

The rule that must not break: it needs neither database nor bus, writes nothing, and says on standard error alone what
is wrong with the file or the settings, without repeating what they hold.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import UUID

from pydantic import ValidationError

from lorebus_contracts import wire
from lorebus_contracts.http_lessons import PreviewBody
from lorebus_contracts.wire import WireError
from lorebus_kit.providers.directory import Providers
from lorebus_kit.providers.errors import ProviderRefusedError
from lorebus_kit.providers.preview import Preview, preview
from lorebus_kit.providers.usage import ModelSettings, UnkeptUsage
from lorebus_kit.settings import EXIT_BAD_SETTINGS
from lorebus_ops.answers import say_json
from lorebus_ops.errors import EXIT_FAILED

_OF_SESSION: Final = ("outcome", "task", "trace")
_NOBODY: Final = UUID(int=0)


class TryError(Exception):
    """The session cannot be tried; the text says why."""


def try_distill(path: Path, *, line: int, profile: str | None, as_json: bool = False) -> int:
    """Print prompt, answer and lessons of the session on this line (from 1) of the file; gives the exit code."""
    try:
        settings = ModelSettings()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        variable = f"LOREBUS_{first['loc'][0]}".upper()
        sys.stderr.write(f"lorebus: {variable}: {first['msg'].removeprefix('Value error, ')}\n")
        return EXIT_BAD_SETTINGS
    try:
        made = asyncio.run(_preview(settings, read_session(path, line), profile))
    except (TryError, ProviderRefusedError) as error:
        sys.stderr.write(f"lorebus: {error}\n")
        return EXIT_FAILED
    if as_json:
        say_json(_document(made))
    else:
        sys.stdout.write("".join(f"{told}\n" for told in _told(made)))
    return EXIT_FAILED if made.failure_reason else 0


def read_session(path: Path, line: int) -> PreviewBody:
    """The session on this line (from 1) of a file of `session.ended` events, or of a file that is one event as a whole.

    Raises:
        TryError: there is none.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise TryError(f"{path}: {error.strerror}") from error
    lines = [one for one in raw.splitlines() if one.strip()]
    whole = line == 1 and not _is_object(lines[0] if lines else b"")
    if not whole and line > len(lines):
        raise TryError(f"{path}: has {len(lines)} lines, not {line}")
    try:
        told = wire.load_json(raw if whole else lines[line - 1])
        if not isinstance(told, dict):
            raise TryError(f"{path}: holds no JSON object on line {line}")
        return wire.validate(PreviewBody, {name: told[name] for name in _OF_SESSION if name in told})
    except WireError as error:
        raise TryError(f"{path}: {error}") from error


def _is_object(line: bytes) -> bool:
    """Whether a line is an event by itself, and not the beginning of one that goes over several."""
    try:
        return isinstance(wire.load_json(line), dict)
    except WireError:
        return False


async def _preview(settings: ModelSettings, session: PreviewBody, profile: str | None) -> Preview:
    providers = Providers(settings.models, UnkeptUsage())
    try:
        return await preview(
            providers.of(profile),
            organization_uuid=_NOBODY,
            outcome=session.outcome,
            task=session.task,
            trace=session.trace,
        )
    finally:
        await providers.close()


def _document(made: Preview) -> dict[str, object]:
    """`prompt` is null where no model was asked, `cost` where none answered."""
    return {
        "provider": made.provider,
        "version": made.version,
        "prompt": made.transcript.prompt,
        "answers": made.transcript.answers,
        "lessons": [
            {"text": one.lesson.text, "importance": one.lesson.importance, "held_for": one.held_for}
            for one in made.lessons
        ],
        "skipped_reason": made.skipped_reason,
        "failure_reason": made.failure_reason,
        "error": made.error,
        "redacted": made.redacted,
        "dropped_calls": made.dropped_calls,
        "cost": None if made.distilled is None else made.distilled.cost,
    }


def _told(made: Preview) -> Iterator[str]:
    prompt = made.transcript.prompt
    if prompt is not None:
        yield f"=== prompt, version {prompt.version}: instructions"
        yield prompt.system
        yield "=== prompt: session"
        yield prompt.user
    for answer in made.transcript.answers:
        yield "=== answer"
        yield answer
    yield f"=== lessons by {made.provider} {made.version}: {len(made.lessons)}"
    for one in made.lessons:
        held = f"  (would be held: {one.held_for})" if one.held_for else ""
        yield f"{one.lesson.importance:.2f}  {one.lesson.text}{held}"
    yield from _facts(made)


def _facts(made: Preview) -> Iterator[str]:
    if made.skipped_reason:
        yield f"no lessons: {made.skipped_reason}"
    if made.failure_reason:
        yield f"failed: {made.failure_reason}: {made.error}"
    if made.redacted:
        counts = ", ".join(f"{kind} {count}" for kind, count in sorted(made.redacted.items()))
        yield f"taken out before: {counts}"
    if made.dropped_calls:
        yield f"calls left out: {made.dropped_calls}"
    cost = None if made.distilled is None else made.distilled.cost
    if cost is not None:
        price = "" if cost.price is None else f", price {cost.price:g}"
        yield (
            f"{cost.model}: {cost.calls} calls, {cost.prompt_tokens} + {cost.completion_tokens} tokens,"
            f" {cost.milliseconds} ms{price}"
        )
