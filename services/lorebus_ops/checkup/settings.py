"""Are the variables that begin with LOREBUS_ known, and sound for the services that read them?"""

import os
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from lorebus_kit.settings import PREFIX, SettingFault, setting_faults
from lorebus_ops.checkup.finding import Finding, good, warning, wrong
from lorebus_ops.env_example import all_settings
from lorebus_ops.home import FOLDER_VARIABLE
from lorebus_ops.target import KEY_VARIABLE, TOKEN_VARIABLE, URL_VARIABLE

CHECK: Final = "settings"
STORES: Final = frozenset({"LOREBUS_DATABASE_URL", "LOREBUS_BOOTSTRAP_SERVERS"})
"""Which the command may have been told otherwise."""

_OF_COMMANDS: Final = frozenset({FOLDER_VARIABLE, KEY_VARIABLE, TOKEN_VARIABLE, URL_VARIABLE})
_OF_TESTS: Final = ("LOREBUS_TEST_", "LOREBUS_FAULT_")


def check_settings() -> tuple[Finding, ...]:
    """What is wrong with the variables of this process's environment."""
    found = (*_misspelled(), *_unsound())
    told = sorted(name for name in os.environ if name.startswith(PREFIX))
    return found or (good(CHECK, f"{len(told)} variables are set, and sound"),)


def _misspelled() -> Iterator[Finding]:
    known = _OF_COMMANDS | {
        PREFIX + field.upper() for settings in all_settings() for field in settings.model_fields
    }
    for name in sorted(os.environ):
        if not name.startswith(PREFIX) or name in known or name.startswith(_OF_TESTS):
            continue
        near = get_close_matches(name, known, n=1)
        remedy = f"write {near[0]}" if near else "take it away, or see .env.example for what there is"
        yield wrong(CHECK, "unknown_variable", f"{name} is no setting: nothing reads it", remedy)


def _unsound() -> Iterator[Finding]:
    faults: dict[str, SettingFault] = {}
    for settings in all_settings():
        for fault in setting_faults(settings):
            faults.setdefault(fault.variable, fault)
    for fault in faults.values():
        if not fault.is_missing:
            remedy = "set it as .env.example says"
            yield wrong(CHECK, "bad_value", f"{fault.variable}: {fault.problem}", remedy)
        elif fault.variable not in STORES:
            yield warning(
                *(CHECK, "missing", f"{fault.variable} is not set"),
                "set it where a gateway runs; consumers and commands need none",
            )
