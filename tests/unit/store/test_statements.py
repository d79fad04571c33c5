"""What must hold for every statement of the store, looked up in its modules."""

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import lorebus_store
from lorebus_store.statements import Statement

# The queues of the system, which serve every organization, and what finds out which organization it is.
SYSTEM_WIDE = {
    "lorebus_store.database._PING",
    "lorebus_store.diagnosis._CLOCK",
    "lorebus_store.diagnosis._ROLE",
    "lorebus_store.diagnosis._UNHELD",
    "lorebus_store.keys._FIND",
    "lorebus_store.leases._CLAIM",
    "lorebus_store.leases._ONE_CLAIM_AT_A_TIME",
    "lorebus_store.locks._LOCK",
    "lorebus_store.locks._SHARE",
    "lorebus_store.locks._TRY_LOCK",
    # A table of one transaction, which is about one organization.
    "lorebus_store.moving._ADD_STAGED",
    "lorebus_store.moving._STAGE",
    "lorebus_store.outbox._DELETE",
    "lorebus_store.outbox._DEPTH",
    "lorebus_store.outbox._LEASE",
    "lorebus_store.outbox._PENDING",
    "lorebus_store.outbox._RELEASE",
    "lorebus_store.reach._NEXT",
    "lorebus_store.retention._EVENTS",
    "lorebus_store.retention._KEYS",
    "lorebus_store.retention._WINDOWS",
    "lorebus_store.retention._RUNS",
    # A run that an operator names by its id alone.
    "lorebus_store.run_search._WITH_ID",
    "lorebus_store.runs._SWEEP_STALE",
    "lorebus_store.sampling._RUNS",
    "lorebus_store.sampling._TRY",
    "lorebus_store.settings._TELL",
}


def statements() -> Iterator[tuple[str, Statement]]:
    for found in pkgutil.iter_modules(lorebus_store.__path__, "lorebus_store."):
        if found.ispkg:
            continue
        for name, value in vars(importlib.import_module(found.name)).items():
            for number, statement in enumerate(value.values() if isinstance(value, dict) else [value]):
                if isinstance(statement, Statement):
                    yield f"{found.name}.{name}{f'[{number}]' if isinstance(value, dict) else ''}", statement


def is_one_organizations(statement: Statement) -> bool:
    return not {"organization_uuid", "organizations"}.isdisjoint(statement.parameters)


def test_every_statement_is_about_an_organization_but_those_of_the_system() -> None:
    assert {name for name, statement in statements() if not is_one_organizations(statement)} == SYSTEM_WIDE


def test_parameters_come_in_the_order_of_the_drivers_numbers() -> None:
    statement = Statement("SELECT :b, :a, CAST(:b AS text)")
    assert statement.parameters == ("b", "a")
    assert statement.sql == "SELECT $1, $2, CAST($1 AS text)"


@pytest.mark.parametrize(("name", "statement"), list(statements()))
def test_no_value_is_written_into_a_statement(name: str, statement: Statement) -> None:
    assert statement.parameters or name in SYSTEM_WIDE, name
