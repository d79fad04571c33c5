"""The settings as an example of a `.env` file, made from the classes that read them.

`python -m lorebus_kit.env_example` prints those that every service shares; what each service adds is only known
above the kit, so the classes are an argument.
"""

import json
import sys
from collections.abc import Collection, Iterable, Mapping
from typing import Literal, get_args, get_origin

from pydantic import SecretBytes, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python
from pydantic_settings import BaseSettings

from lorebus_kit.settings import ConsumerSettings, ServiceSettings

HEADING = """\
# What can be set, from the environment or from the file `.env` that docker-compose.yml reads.
# A variable behind a comment sign shows its default; a required one has none.
"""


def env_example(
    settings: Iterable[type[BaseSettings]],
    *,
    others: Mapping[str, str] | None = None,
    to_fill_in: Collection[str] = (),
) -> str:
    """Every variable once with its description and default, grouped by the class that brings it in.

    Args:
        settings: the classes, each after those it inherits from.
        others: variables with their descriptions that no class reads; they come first, to be filled in.
        to_fill_in: variables of the classes that are to be filled in too, so without a comment sign.
    """
    groups = [HEADING, *(f"# {description}\n{name}=\n" for name, description in (others or {}).items())]
    told: set[str] = set()
    for cls in settings:
        new = {name: field for name, field in cls.model_fields.items() if variable_of(cls, name) not in told}
        if new:
            groups.append(f"# --- {cls.__name__}: {_first_sentence(cls)}\n")
        for name, field in new.items():
            variable = variable_of(cls, name)
            told.add(variable)
            sign = "" if variable in to_fill_in else "# "
            groups.append(f"# {_described(field)}\n{sign}{variable}={_default_of(field)}\n")
    return "\n".join(groups)


def variable_of(cls: type[BaseSettings], field: str) -> str:
    """The environment variable of a field."""
    return (cls.model_config.get("env_prefix", "") + field).upper()


def as_variable(value: object) -> str:
    """A setting's value as an environment variable holds it; nothing for a secret or for none."""
    plain = None if isinstance(value, SecretStr | SecretBytes) else to_jsonable_python(value)
    if plain is None:
        return ""
    return plain if isinstance(plain, str) else json.dumps(plain)


def main() -> None:
    """Print the example for what every service shares."""
    sys.stdout.write(env_example([ServiceSettings, ConsumerSettings]))


def _described(field: FieldInfo) -> str:
    parts = ["Required."] if field.is_required() else []
    parts.append(field.description or "")
    if get_origin(field.annotation) is Literal:
        parts.append(f"One of: {', '.join(map(str, get_args(field.annotation)))}.")
    return " ".join(parts)


def _default_of(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True, validated_data={})
    return "" if default is PydanticUndefined else as_variable(default)


def _first_sentence(cls: type[BaseSettings]) -> str:
    return (cls.__doc__ or "").strip().partition("\n")[0]


if __name__ == "__main__":
    main()
