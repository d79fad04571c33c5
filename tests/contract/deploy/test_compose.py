"""docker-compose.yml beyond its schema: restarts, health, pins, and that the parts fit together."""

from typing import Any, Final

import yaml

from tests.contract.golden_files import ROOT

COMPOSE: Final[dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: Final[dict[str, dict[str, Any]]] = COMPOSE["services"]
ONCE: Final = {"migrate", "topics"}
OURS: Final = {"gateway", "save", "distill", "recall-labeller", "prune"} | ONCE


def test_what_runs_on_is_started_again_and_tells_its_health() -> None:
    lasting = {name: told for name, told in SERVICES.items() if name not in ONCE}

    assert {name for name, told in lasting.items() if told.get("restart") != "unless-stopped"} == set()
    assert {name for name, told in lasting.items() if "healthcheck" not in told} == set()
    assert {SERVICES[name]["restart"] for name in ONCE} == {"no"}


def test_every_service_waits_for_tables_and_topics() -> None:
    done = {"condition": "service_completed_successfully"}

    assert {
        name for name in OURS - ONCE if SERVICES[name]["depends_on"] != {"migrate": done, "topics": done}
    } == set()


def test_a_process_of_ours_has_no_rights_and_a_root_that_it_cannot_write() -> None:
    for name in OURS:
        assert SERVICES[name]["read_only"] is True
        assert SERVICES[name]["cap_drop"] == ["ALL"]
        assert SERVICES[name]["security_opt"] == ["no-new-privileges:true"]


def test_images_of_others_are_pinned_and_nothing_is_published_beyond_loopback() -> None:
    images = {told["image"] for name, told in SERVICES.items() if name not in OURS}
    ports = [port for told in SERVICES.values() for port in told.get("ports", ())]

    assert images == {"postgres:18", "apache/kafka:4.3.1", "prom/prometheus:v3.7.3", "grafana/grafana:12.3.0"}
    assert ports == ["127.0.0.1:8080:8080", "127.0.0.1:3000:3000"]


def test_prometheus_scrapes_every_process_where_it_listens() -> None:
    told = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))

    scraped = {
        (name, discovery["port"])
        for job in told["scrape_configs"]
        for discovery in job["dns_sd_configs"]
        for name in discovery["names"]
        if name == job["job_name"]
    }
    assert scraped == {
        (name, int(env.get("LOREBUS_HEALTH_PORT") or env["LOREBUS_HTTP_PORT"]))
        for name, env in ((name, SERVICES[name]["environment"]) for name in OURS - ONCE)
    }


def test_what_is_mounted_is_there() -> None:
    sources = [
        volume.split(":")[0]
        for told in SERVICES.values()
        for volume in told.get("volumes", ())
        if volume.startswith("./")
    ]

    assert len(sources) == 3
    assert [source for source in sources if not (ROOT / source).is_dir()] == []
