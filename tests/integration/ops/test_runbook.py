"""What the runbook has somebody type into PostgreSQL at night is what PostgreSQL takes."""

import re
from pathlib import Path
from typing import Final

import asyncpg

RUNBOOK: Final = Path(__file__).parents[3] / "docs" / "runbook.md"


async def test_every_statement_of_the_runbook_runs(database_url: str) -> None:
    blocks = re.findall("```sql\n(.*?)```", RUNBOOK.read_text(encoding="utf-8"), re.DOTALL)
    statements = [one for block in blocks for one in block.split(";\n") if one.strip()]
    connection = await asyncpg.connect(database_url)
    try:
        for statement in statements:
            await connection.fetch(statement)
    finally:
        await connection.close()
    assert len(statements) == 4


async def test_what_the_runbook_has_vacuumed_is_a_table(database_url: str) -> None:
    (command,) = re.findall(r"`(VACUUM [^`]+)`", RUNBOOK.read_text(encoding="utf-8"))
    connection = await asyncpg.connect(database_url)
    try:
        assert await connection.execute(command) == "VACUUM"
    finally:
        await connection.close()
