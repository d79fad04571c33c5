"""The domain is pure: it loads the standard library and `regex`, and nothing else."""

import json
import subprocess
import sys
from pathlib import Path

import lorebus_domain

LOAD_ALL = """
import importlib, json, pkgutil, sys
before = set(sys.modules)
import lorebus_domain
names = [found.name for found in pkgutil.walk_packages(lorebus_domain.__path__, "lorebus_domain.")]
for name in names:
    importlib.import_module(name)
print(json.dumps({"modules": names, "loaded": sorted(set(sys.modules) - before)}))
"""


def test_loading_every_module_loads_nothing_but_the_standard_library_and_regex() -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOAD_ALL], capture_output=True, text=True, check=True, timeout=60
    )

    found = json.loads(run.stdout)
    packages = {name.partition(".")[0] for name in found["loaded"]}
    assert packages - sys.stdlib_module_names == {"lorebus_domain", "regex"}
    (folder,) = map(Path, lorebus_domain.__path__)
    files = {f"lorebus_domain.{path.stem}" for path in folder.glob("*.py") if path.stem != "__init__"}
    assert set(found["modules"]) == files
