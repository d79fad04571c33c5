"""Starts a service whose statements ask for no organization: `python -m tests.isolation.unfiltered lorebus_gateway`.

What then still keeps organizations apart is row-level security alone. The product has no such switch: the statements
are altered here, as they are made, before the service's own `__main__` runs.

The rule that must not break: only conditions are taken out. A parameter stays where it stood, so that PostgreSQL knows
its type, and what is written keeps its organization. Statements that work for many organizations at once (a consumer's
batch, the system's queues) name the organization of each row by it and not by a filter; they stay as they are.
"""

import re
import runpy
import sys
from typing import Any, Final

from lorebus_store import statements

_PARAMETER: Final = ":organization_uuid"
_ASKED: Final = re.compile(r"(?:\b\w+\.)?\borganization_uuid = :organization_uuid\b")
_ALWAYS: Final = "CAST(:organization_uuid AS uuid) IS NOT NULL"
_JOINED: Final = re.compile(r"\b\w+\.organization_uuid = \w+\.organization_uuid\b")


def unfiltered(sql: str) -> str:
    """The statement with nothing in its conditions that says whose rows it is about."""
    if _PARAMETER not in sql:
        return sql
    return _JOINED.sub("TRUE", _ASKED.sub(_ALWAYS, sql))


def alter_statements() -> None:
    """From now on statements are made without their organization; those of modules loaded before stay.

    Raises:
        RuntimeError: the store's modules are loaded already.
    """
    if any(name.startswith("lorebus_store.") and name not in _HARMLESS for name in sys.modules):
        raise RuntimeError("the store's statements were made before they could be altered")
    made = statements.Statement.__init__

    def make(self: statements.Statement, sql: str, *rest: Any, **more: Any) -> None:  # noqa: ANN401
        made(self, unfiltered(sql), *rest, **more)

    statements.Statement.__init__ = make  # type: ignore[method-assign]  # That is what it is for.


_HARMLESS: Final = frozenset({"lorebus_store.statements"})


if __name__ == "__main__":
    alter_statements()
    service = sys.argv.pop(1)
    runpy.run_module(service, run_name="__main__", alter_sys=True)
