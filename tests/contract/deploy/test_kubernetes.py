"""The Kubernetes base: valid by the schemas, and true to what the services are."""

import json
from importlib.util import find_spec
from typing import Final

import jsonschema
import kubernetes_validate
import pytest

from lorebus_contracts.topics import TOPICS
from lorebus_kit.env_example import variable_of
from lorebus_kit.health import Health, health_routes
from lorebus_kit.stopping import STOP_WITHIN_SECONDS
from lorebus_kit.topics import DEFAULT_PARTITIONS
from lorebus_ops.env_example import all_settings
from tests.contract.deploy.manifests import (
    BASE,
    SCALED_OBJECT_SCHEMA,
    Manifest,
    container,
    kustomization,
    manifests,
    of_kind,
    pods,
)

KUBERNETES: Final = "1.31"
SERVICES: Final = {"gateway", "save", "distill", "recall-labeller", "prune"}
every_manifest = pytest.mark.parametrize(
    "manifest", manifests(), ids=lambda one: f"{one['kind']}/{one['metadata']['name']}"
)
every_pod = pytest.mark.parametrize("pod", pods().values(), ids=pods().keys())
every_deployment = pytest.mark.parametrize(
    "deployment", of_kind("Deployment").values(), ids=of_kind("Deployment").keys()
)


@every_manifest
def test_a_manifest_is_valid_by_its_schema(manifest: Manifest) -> None:
    if manifest["kind"] == "ScaledObject":
        jsonschema.validate(manifest, json.loads(SCALED_OBJECT_SCHEMA.read_text(encoding="utf-8")))
    else:
        assert kubernetes_validate.validate(manifest, KUBERNETES, strict=True) == KUBERNETES


def test_a_manifest_with_an_unknown_field_would_be_found() -> None:
    (service,) = of_kind("Service").values()

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(service | {"specs": {}}, KUBERNETES, strict=True)


def test_the_kustomization_names_every_file_and_each_is_there() -> None:
    named = set(kustomization()["resources"])

    assert named == {path.name for path in BASE.glob("*.yaml")} - {"kustomization.yaml"}


def test_every_service_has_a_deployment_a_budget_and_every_consumer_is_scaled_on_its_lag() -> None:
    assert set(of_kind("Deployment")) == SERVICES
    assert set(of_kind("PodDisruptionBudget")) == SERVICES
    assert set(of_kind("ScaledObject")) == SERVICES - {"gateway"}


def test_a_budget_and_a_service_select_the_pods_of_their_name() -> None:
    selectors = {
        name: budget["spec"]["selector"]["matchLabels"]
        for name, budget in of_kind("PodDisruptionBudget").items()
    }
    selectors["gateway service"] = of_kind("Service")["gateway"]["spec"]["selector"]

    for name, selector in selectors.items():
        assert selector.items() <= pods()[name.split()[0]]["metadata"]["labels"].items()


def test_each_topic_of_each_group_scales_its_consumer_up_to_the_partitions() -> None:
    scaled = {
        (trigger["metadata"]["topic"], trigger["metadata"]["consumerGroup"])
        for one in of_kind("ScaledObject").values()
        for trigger in one["spec"]["triggers"]
    }

    assert scaled == {(topic.name, group) for topic in TOPICS for group in topic.groups}
    for name, one in of_kind("ScaledObject").items():
        assert one["spec"]["scaleTargetRef"] == {"name": name}
        assert one["spec"]["maxReplicaCount"] == DEFAULT_PARTITIONS
        assert "replicas" not in of_kind("Deployment")[name]["spec"]


@every_pod
def test_a_pod_is_nobody_and_writes_nowhere_but_to_tmp(pod: Manifest) -> None:
    rights = container(pod)["securityContext"]

    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert pod["spec"]["securityContext"]["runAsUser"] == 10001
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert rights == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container(pod)["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 - The pod's own.


@every_pod
def test_a_pod_says_what_it_needs(pod: Manifest) -> None:
    resources = container(pod)["resources"]

    assert {"cpu", "memory"} == set(resources["requests"])
    assert "memory" in resources["limits"]


@every_pod
def test_what_a_pod_is_told_is_a_setting(pod: Manifest) -> None:
    settings = {variable_of(cls, field) for cls in all_settings() for field in cls.model_fields}
    told = {one["name"] for one in container(pod).get("env", ())}

    assert told | set(of_kind("ConfigMap")["lorebus"]["data"]) <= settings


def test_no_secret_is_in_the_base() -> None:
    plain = {
        one["name"] for pod in pods().values() for one in container(pod).get("env", ()) if "value" in one
    }

    assert of_kind("Secret") == {}
    assert not plain & {"LOREBUS_DATABASE_URL", "LOREBUS_TOKEN_SECRETS", "LOREBUS_MODELS"}


@every_deployment
def test_a_deployment_runs_a_module_that_there_is_and_has_time_to_stop(deployment: Manifest) -> None:
    pod = deployment["spec"]["template"]
    python, flag, module = container(pod)["command"]

    assert (python, flag) == ("python", "-m")
    assert find_spec(f"{module}.__main__") is not None
    assert pod["spec"]["terminationGracePeriodSeconds"] > STOP_WITHIN_SECONDS


@every_deployment
def test_the_probes_of_a_deployment_ask_what_a_process_answers(deployment: Manifest) -> None:
    box = container(deployment["spec"]["template"])
    routes = {route.path for route in health_routes(lambda: Health((), (), {}))}
    env = {one["name"]: one.get("value") for one in box["env"]}

    asked = {
        name: box[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert asked == {
        "startupProbe": "/health/live",
        "livenessProbe": "/health/live",
        "readinessProbe": "/health/ready",
    }
    assert set(asked.values()) <= routes
    (port,) = box["ports"]
    assert env.get("LOREBUS_HEALTH_PORT", env.get("LOREBUS_HTTP_PORT")) == str(port["containerPort"])
    assert env.get("LOREBUS_HEALTH_HOST", env.get("LOREBUS_HTTP_HOST")) == "0.0.0.0"  # noqa: S104 - Within its pod.


def test_nobody_gets_in_or_out_unless_a_policy_says_so() -> None:
    policies = of_kind("NetworkPolicy")

    assert policies["deny-all"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    models = policies["models"]["spec"]["podSelector"]["matchExpressions"]
    assert [one["values"] for one in models] == [["distill", "gateway"]]
