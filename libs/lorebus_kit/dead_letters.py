"""Dead letters: a record that cannot be handled, set aside with its bytes untouched and its origin told.

The rule that must not break: a record is acknowledged only after the broker has its dead letter.
"""

from datetime import UTC, datetime
from typing import Final

from aiokafka import ConsumerRecord

from lorebus_contracts.wire import WireError
from lorebus_domain.redaction import redact
from lorebus_kit.bus import Headers, Record

HEADER_PREFIX: Final = "lorebus-"
FIRST_TOLD: Final = "origin-topic"
"""What is told of a dead letter begins with this, behind the record's own headers."""
ERROR_TEXT_CHARS: Final = 300
NO_VALUE: Final = "no-value"
"""Told of a record that had neither key nor value: no client sends such a one, so that its letter's value is empty."""
LOST_NAMES_CHARS: Final = 4_096
"""How much of header names that cannot be kept is told, as hex: a dead letter must fit into its topic."""


def dead_letter(record: ConsumerRecord, *, topic: str, group: str, error: Exception) -> Record:
    """The dead letter of `record`: same key, value and headers, plus where it came from and why.

    Args:
        record: as it was consumed.
        topic: the plain name of the dead-letter topic.
        group: the consumer group that gave up.
        error: why.
    """
    told = {
        FIRST_TOLD: record.topic,
        "origin-partition": str(record.partition),
        "origin-offset": str(record.offset),
        "origin-group": group,
        "error-type": type(error).__name__,
        "error-text": error_text(error),
        "dead-lettered-at": datetime.now(UTC).isoformat(),
    }
    value = record.value
    if record.key is None and value is None:
        value, told[NO_VALUE] = b"", "true"
    kept = [(name, value) for name, value in record.headers if is_text(name)]
    lost = [name for name, _ in record.headers if not is_text(name)]
    if lost:
        told["undecodable-header-names"] = ",".join(
            name.encode("utf-8", "surrogateescape").hex() for name in lost
        )[:LOST_NAMES_CHARS]
    return Record(
        topic=topic,
        key=record.key,
        value=value,
        headers=[*kept, *((HEADER_PREFIX + name, value.encode()) for name, value in told.items())],
    )


def is_text(name: str) -> bool:
    """True if a header's name was UTF-8; what was not holds surrogates."""
    return not any("\ud800" <= char <= "\udfff" for char in name)


def check_headers(headers: Headers) -> None:
    """Refuse headers that a consumer cannot decode.

    Raises:
        UndecodableHeaderError: a name or a value is not UTF-8, or a value is null.
    """
    for name, value in headers:
        if not is_text(name):
            raise UndecodableHeaderError("a header's name is not UTF-8")
        if value is None:
            raise UndecodableHeaderError("a header's value is null")
        try:
            value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UndecodableHeaderError("a header's value is not UTF-8") from error


def error_text(error: Exception) -> str:
    """What an error says, fit for headers and logs: one line, trimmed, secrets taken out.

    Only our own errors are quoted, which never hold memory text; of others the type has to do.
    """
    text = (
        str(error)
        if isinstance(error, WireError | RejectedError | UndecodableHeaderError)
        else type(error).__name__
    )
    return redact(text.partition("\n")[0]).text[:ERROR_TEXT_CHARS]


class RejectedError(Exception):
    """A handler said that the event can never be handled; the text is the reason, from a closed set."""


class UndecodableHeaderError(Exception):
    """A header's name or value is not UTF-8."""
