"""The Kubernetes manifests of the base, as its kustomization names them."""

from pathlib import Path
from typing import Any, Final

import yaml

from tests.contract.golden_files import ROOT

KUBERNETES: Final = ROOT / "deploy" / "kubernetes"
BASE: Final = KUBERNETES / "base"
SCALED_OBJECT_SCHEMA: Final = KUBERNETES / "schemas" / "scaledobject.schema.json"
Manifest = dict[str, Any]


def kustomization() -> Manifest:
    """The base's own."""
    loaded: Manifest = yaml.safe_load((BASE / "kustomization.yaml").read_text(encoding="utf-8"))
    return loaded


def manifests() -> tuple[Manifest, ...]:
    """Every object of every resource."""
    return tuple(found for name in kustomization()["resources"] for found in in_file(BASE / name))


def in_file(path: Path) -> tuple[Manifest, ...]:
    """The objects of one file."""
    return tuple(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def of_kind(kind: str) -> dict[str, Manifest]:
    """The objects of a kind by name."""
    return {found["metadata"]["name"]: found for found in manifests() if found["kind"] == kind}


def pods() -> dict[str, Manifest]:
    """The pod of every Deployment and Job by its name."""
    return {
        name: found["spec"]["template"]
        for kind in ("Deployment", "Job")
        for name, found in of_kind(kind).items()
    }


def container(pod: Manifest) -> Manifest:
    """The one container of a pod."""
    (only,) = pod["spec"]["containers"]
    found: Manifest = only
    return found
