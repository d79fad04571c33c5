"""Reading a body: one parser for HTTP and for Kafka, so that a value gets the same verdict on both.

The rule that must not break: a bad body is told apart fault by fault and never echoed.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

ModelT = TypeVar("ModelT", bound=BaseModel)

MAX_FAULTS: Final = 20
"""Faults told for one body; a body of a million bad entries gets an answer of a readable length."""

_PROBLEM_OF: Final[Mapping[str, str]] = {
    "missing": "is required",
    "extra_forbidden": "is not a known key",
    "model_type": "should be a JSON object",
    "uuid_parsing": "should be a valid UUID",
    "uuid_type": "should be a string",
    "datetime_parsing": "should be a date and time as RFC 3339 says",
    "datetime_from_date_parsing": "should be a date and time as RFC 3339 says",
}
"""What to say where the library's own words would repeat some of the input, or are no help."""

_OUR_NAME: Final = re.compile("[A-Za-z0-9_-]{1,64}")


class WireModel(BaseModel):
    """Base of everything on the wire: frozen, and unknown keys are refused (SPEC.md section 6)."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a body: where (dotted path, empty for the whole) and what would be right."""

    path: str
    problem: str


class WireError(ValueError):
    """A body that cannot be read; `faults` holds one to twenty, none of which repeats the body's content."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults
        super().__init__("; ".join(f"{f.path or 'body'}: {f.problem}" for f in faults))


def parse(model: type[ModelT], raw: bytes) -> ModelT:
    """The body as `model`.

    Raises:
        WireError: not UTF-8, not JSON, a key twice, nested too deep, or not of the model's form.
    """
    return validate(model, load_json(raw))


def load_json(raw: bytes) -> object:
    """The JSON value of a body; a key that stands twice in one object is refused.

    Raises:
        WireError: as `parse`.
    """
    if not raw.strip():
        raise WireError(Fault("", "is empty; a JSON object was expected"))
    try:
        return json.loads(raw.decode("utf-8"), object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise WireError(Fault("", f"is not UTF-8 at byte {error.start}")) from error
    except json.JSONDecodeError as error:
        raise WireError(
            Fault("", f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}")
        ) from error
    except RecursionError as error:
        raise WireError(Fault("", "is nested too deep to be read")) from error
    except _DuplicateKeyError as error:
        raise WireError(Fault("", "holds a key twice in one object; each may stand once")) from error
    except ValueError as error:
        raise WireError(Fault("", "holds a number that is too long to be read")) from error


def validate(model: type[ModelT], value: object) -> ModelT:
    """A JSON value as `model`.

    Raises:
        WireError: it is not of the model's form.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise WireError(*_faults(error)) from error
    except RecursionError as error:
        raise WireError(Fault("", "is nested too deep to be read")) from error


class _DuplicateKeyError(ValueError):
    pass


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        _refuse_duplicate()
    return made


def _refuse_duplicate() -> NoReturn:
    raise _DuplicateKeyError


def _faults(error: ValidationError) -> tuple[Fault, ...]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    # An array whose items are at fault is called too short besides, because only sound items are counted.
    of_items = {item["loc"][:depth] for item in found for depth in range(len(item["loc"]))}
    told = [item for item in found if item["type"] != "too_short" or item["loc"] not in of_items]
    return tuple(Fault(_path(item["loc"]), _problem(item["type"], item["msg"])) for item in told[:MAX_FAULTS])


def _path(location: tuple[int | str, ...]) -> str:
    """The place of a fault. A key that no schema of ours could hold was made up by the sender: it is not echoed."""
    return ".".join(str(part) if _OUR_NAME.fullmatch(str(part)) else "?" for part in location)


def _problem(kind: str, message: str) -> str:
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    told = _PROBLEM_OF.get(kind) or message.removeprefix("Input ")
    return told[:1].lower() + told[1:]
