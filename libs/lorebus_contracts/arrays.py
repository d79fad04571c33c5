"""Arrays on the wire, which a sender can make as long as a body may be.

The rule that must not break: what is wrong with their items is looked for until there is enough to tell. A body of half
a million bad items must cost no more than one of twenty.
"""

from collections.abc import Iterator
from typing import Final

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import InitErrorDetails

from lorebus_contracts.wire import MAX_FAULTS


def _with_few_faults(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    """The array; what is wrong with its first bad items, where `validate` stops at the first one."""
    try:
        return validate(value)
    except ValidationError as error:
        is_about_an_item = bool(error.errors(include_url=False, include_context=False)[0]["loc"])
        if not is_about_an_item or not isinstance(value, list | tuple):
            raise
    told: list[InitErrorDetails] = []
    for position, item in enumerate(value):
        told += _faults_of(position, item, validate)
        if len(told) >= MAX_FAULTS:
            break
    raise ValidationError.from_exception_data("array", told)


def _faults_of(
    position: int, item: object, validate: ValidatorFunctionWrapHandler
) -> Iterator[InitErrorDetails]:
    try:
        validate([item])
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            # Without an item that is sound, the array is too short besides.
            if fault["loc"]:
                yield InitErrorDetails(
                    type=fault["type"],
                    loc=(position, *fault["loc"][1:]),
                    input=fault["input"],
                    ctx=fault.get("ctx", {}),
                )


FIRST_FAULTS: Final = (Field(fail_fast=True), WrapValidator(_with_few_faults))
"""What an array's type is annotated with: `Annotated[tuple[X, ...], *FIRST_FAULTS]`."""
