"""What holds for every command of `lorebus`, those that are added later as well."""

from collections.abc import Iterator
from typing import Final

import pytest
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from lorebus_ops.cli import app

WITHOUT_JSON: Final = {
    "mcp": "its standard output is the protocol, which is JSON already",
}
"""Commands that have no --json, each with its reason."""


def commands(of: object, *words: str) -> Iterator[tuple[str, TyperCommand]]:
    """Each command that does something, with the words by which it is called."""
    if isinstance(of, TyperGroup):
        for name, command in sorted(of.commands.items()):
            yield from commands(command, *words, name)
    elif isinstance(of, TyperCommand):
        yield " ".join(words), of


COMMANDS: Final = dict(commands(get_command(app)))


def options_of(command: TyperCommand) -> set[str]:
    return {word for one in command.params for word in one.opts}


def test_all_groups_are_walked() -> None:
    assert {"up", "mcp", "keys create", "distill try", "dlq replay", "memory import", "topics check"} <= set(
        COMMANDS
    )


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - set(WITHOUT_JSON)))
def test_a_command_answers_with_json_when_it_is_asked_to(name: str) -> None:
    assert "--json" in options_of(COMMANDS[name])


@pytest.mark.parametrize("name", sorted(WITHOUT_JSON))
def test_a_command_without_json_says_so_in_its_help(name: str) -> None:
    assert "--json" not in options_of(COMMANDS[name])
    assert "There is no --json" in (COMMANDS[name].help or "")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_has_an_example_that_calls_it_and_help_for_each_option(name: str) -> None:
    command = COMMANDS[name]
    words = (command.epilog or "").replace('", "args": ["', " ")

    assert words.startswith("Example")
    assert f"lorebus {name}" in words
    assert [one.name for one in command.params if not getattr(one, "help", None)] == []
