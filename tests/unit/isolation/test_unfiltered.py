import subprocess
import sys

import pytest

from tests.isolation.unfiltered import unfiltered


@pytest.mark.parametrize(
    ("sql", "altered"),
    [
        (
            "SELECT text FROM lorebus.memories WHERE organization_uuid = :organization_uuid AND id = :id",
            "SELECT text FROM lorebus.memories WHERE CAST(:organization_uuid AS uuid) IS NOT NULL AND id = :id",
        ),
        (
            "SELECT 1 WHERE a.organization_uuid = :organization_uuid AND b.organization_uuid = a.organization_uuid",
            "SELECT 1 WHERE CAST(:organization_uuid AS uuid) IS NOT NULL AND TRUE",
        ),
    ],
)
def test_the_conditions_on_the_organization_go_and_nothing_else(sql: str, altered: str) -> None:
    assert unfiltered(sql) == altered


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO k (organization_uuid) VALUES (:organization_uuid) ON CONFLICT (organization_uuid) DO NOTHING",
        "SELECT 1 FROM r JOIN unnest(:organizations) AS a (uuid) ON r.organization_uuid = a.organization_uuid",
        "DELETE FROM lorebus.outbox WHERE id = ANY(:ids)",
    ],
)
def test_what_is_written_and_what_is_done_for_many_organizations_stays(sql: str) -> None:
    assert unfiltered(sql) == sql


def test_every_statement_of_the_store_that_asks_for_one_organization_is_altered() -> None:
    program = (
        "import importlib, pkgutil, re\n"
        "from tests.isolation import unfiltered\n"
        "unfiltered.alter_statements()\n"
        "import lorebus_store\n"
        "from lorebus_store.statements import Statement\n"
        "names = [m.name for m in pkgutil.iter_modules(lorebus_store.__path__) if not m.ispkg]\n"
        "modules = [importlib.import_module(f'lorebus_store.{name}') for name in names]\n"
        "made = [s for m in modules for s in vars(m).values() if isinstance(s, Statement)]\n"
        "asking = [s for s in made if re.search(r'organization_uuid = [$]', s.sql)]\n"
        "assert len(made) > 100, len(made)\n"
        "assert not asking, [s.sql for s in asking]\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True)
