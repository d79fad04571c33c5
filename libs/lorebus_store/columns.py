"""The columns that tables are made of, each kind said once."""

from typing import Any, Final

from sqlalchemy import Column, DateTime, PrimaryKeyConstraint, Text, text

TRUE: Final = text("true")
FALSE: Final = text("false")
NOW: Final = text("now()")
ZERO: Final = text("0")


def required(name: str, kind: Any, default: Any = None) -> Column[Any]:  # noqa: ANN401  # As Column's own.
    """A column that always holds a value; `default` is the server's."""
    return Column(name, kind, nullable=False, server_default=default)


def optional(name: str, kind: Any) -> Column[Any]:  # noqa: ANN401  # As Column's own.
    """A column that may hold nothing."""
    return Column(name, kind, nullable=True)


def moment(name: str) -> Column[Any]:
    """When something happened, if it has."""
    return optional(name, DateTime(timezone=True))


def made(name: str) -> Column[Any]:
    """When the row was made, unless somebody says otherwise."""
    return required(name, DateTime(timezone=True), NOW)


def principal() -> Column[Any]:
    """Whose a row is: compared for equality only, in the order of `MemoryScope.sort_key`, which is of code points."""
    return optional("principal_ref", Text(collation="C"))


def key(*columns: str) -> PrimaryKeyConstraint:
    """The primary key."""
    return PrimaryKeyConstraint(*columns)
