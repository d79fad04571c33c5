"""Reading what a chat completion endpoint answered: the text, who answered, and what it counted.

The rule that must not break: whatever comes back, the only errors are this module's two; endpoints that call themselves
compatible leave fields out, send others, or answer with a page of HTML.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MAX_MODEL_NAME_CHARS: Final = 256
_DECLINED: Final = "content_filter"


class NoReplyError(ValueError):
    """The body holds no text of a model; asking again may help."""


class DeclinedError(ValueError):
    """The model, or a filter before it, declined to answer; asking again would not help."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's text; the tokens are None where the endpoint does not count them."""

    text: str
    model: str | None
    prompt_tokens: int | None
    completion_tokens: int | None


def read_reply(body: bytes) -> Reply:
    """The reply of a chat completion's body.

    Raises:
        NoReplyError: it is no JSON object with a text.
        DeclinedError: it says that the model declined.
    """
    completion = _object(_json(body))
    choices = completion.get("choices")
    choice = _object(choices[0] if isinstance(choices, list) and choices else None)
    message = _object(choice.get("message"))
    if message.get("refusal") or choice.get("finish_reason") == _DECLINED:
        raise DeclinedError
    text = _text(message.get("content"))
    if text is None:
        raise NoReplyError
    usage = _object(completion.get("usage"))
    model = completion.get("model")
    return Reply(
        text=text,
        model=model[:MAX_MODEL_NAME_CHARS] if isinstance(model, str) and model else None,
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
    )


def _json(body: bytes) -> object:
    try:
        parsed: object = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NoReplyError from error
    return parsed


def _object(value: object) -> Mapping[str, object]:
    """The value, or an empty object in its place."""
    return value if isinstance(value, dict) else {}


def _text(content: object) -> str | None:
    """A text, or the texts of a list of parts joined; None when there is none."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) and content.strip() else None


def _count(value: object) -> int | None:
    sound = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2**31 - 1
    return value if sound else None  # type: ignore[return-value]  # Just seen to be one.
