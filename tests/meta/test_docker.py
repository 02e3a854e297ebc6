"""Dockerfile and docker-compose.yaml, as far as they can be judged without an engine.

Goal: the image is made as .venv is made, and the services are closed, pinned and watched. Method: the linters, then
the rules that no linter knows, read from the parsed files.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hudi_ops.config.tables_file import load_tables

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(sys.executable).parent
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]

REQUIRED = re.compile(r"\$\{([A-Z_]+):\?[^}]*\}")
SECRET_NAME = re.compile(r"PASSWORD$|SECRET|FERNET|TOKEN|CONN$", re.IGNORECASE)
RUNS_ONCE = {"airflow-init", "flights-init"}

every_service = pytest.mark.parametrize("name", sorted(SERVICES))


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )


def test_dockerfile_passes_its_linter():
    result = run(str(PROGRAMS / "hadolint"), "--failure-threshold", "warning", "Dockerfile")
    assert result.returncode == 0, result.stdout + result.stderr


def test_compose_file_follows_the_specification():
    result = run(str(PROGRAMS / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", "docker-compose.yaml")
    assert result.returncode == 0, result.stdout + result.stderr


def test_image_is_made_like_the_environment():
    assert "uv pip sync" in DOCKERFILE
    assert "--require-hashes requirements-image.lock" in DOCKERFILE
    in_image = re.findall(r"\buv==([\d.]+)", DOCKERFILE)
    here = re.findall(r"UV_VERSION=([\d.]+)", (ROOT / "bin" / "bootstrap").read_text(encoding="utf-8"))
    assert in_image == here != []


def test_image_is_pinned_and_not_root():
    assert re.findall(r"^FROM (.*)$", DOCKERFILE, re.MULTILINE) == ["python:3.11.13-slim-bookworm"]
    assert re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE)[-1] == "50000"


def test_image_copies_what_exists_and_is_not_ignored():
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    sources = [source for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.MULTILINE) for source in line.split()[:-1]]
    assert "requirements-image.lock" in sources
    assert [source for source in sources if not (ROOT / source).exists() or f"!{source}" not in ignored] == []


def test_the_image_is_built_once():
    ours = {name for name, service in SERVICES.items() if service["image"].startswith("hudi-ops:")}
    assert len(ours) >= 7
    assert [name for name in ours if "build" in SERVICES[name]] == ["airflow-init"]
    assert {SERVICES[name]["pull_policy"] for name in ours - {"airflow-init"}} == {"never"}


@every_service
def test_service_has_a_pinned_image(name: str):
    repository, _, tag = SERVICES[name]["image"].partition(":")
    assert repository
    assert re.fullmatch(r"\d+\.\d+[\w.-]*", tag), f"{name}: {SERVICES[name]['image']}"


@every_service
def test_service_ports_are_on_loopback(name: str):
    assert [port for port in SERVICES[name].get("ports", []) if not str(port).startswith("127.0.0.1:")] == []


@every_service
def test_service_is_watched(name: str):
    """What others wait for must be able to say that it serves; a container that merely runs proves nothing."""
    if name in RUNS_ONCE:
        assert SERVICES[name]["restart"] == "no"
    else:
        assert SERVICES[name]["restart"] == "unless-stopped"
        assert {"test", "interval", "timeout", "retries", "start_period"} <= set(SERVICES[name]["healthcheck"])


@every_service
def test_service_waits_for_what_it_names(name: str):
    conditions = {other: how["condition"] for other, how in SERVICES[name].get("depends_on", {}).items()}
    expected = {
        other: "service_completed_successfully" if other in RUNS_ONCE else "service_healthy" for other in conditions
    }
    assert conditions == expected
    assert set(conditions) <= set(SERVICES)


@every_service
def test_service_volumes_are_declared(name: str):
    named = {str(volume).split(":")[0] for volume in SERVICES[name].get("volumes", [])}
    assert named <= set(COMPOSE["volumes"])


def test_no_secret_stands_in_the_compose_file():
    literal = [
        f"{name}: {key}"
        for name, service in SERVICES.items()
        for key, value in service.get("environment", {}).items()
        if SECRET_NAME.search(key) and not REQUIRED.search(str(value))
    ]
    assert literal == []


def test_every_secret_is_in_the_example_without_a_value():
    example = dict(
        line.split("=", 1)
        for line in (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    )
    needed = set(REQUIRED.findall((ROOT / "docker-compose.yaml").read_text(encoding="utf-8")))
    assert set(example) == needed
    assert set(example.values()) == {""}
    assert run("git", "check-ignore", "--quiet", ".env").returncode == 0


def test_services_of_spark_and_airflow_see_the_same_tables():
    for name in ("spark-worker", "airflow-scheduler"):
        assert "data:/opt/hudi-ops/data" in SERVICES[name]["volumes"]
    declared = load_tables(ROOT / "docker" / "tables.yaml")
    places = [place for table in declared.tables.values() for place in (str(table.path), str(table.source))]
    assert places
    assert [place for place in places if not place.startswith("/opt/hudi-ops/data/")] == []
    assert declared.lock.startswith("zookeeper://zookeeper:2181/")


def test_airflow_settings_exist(tmp_path: Path):
    """A misspelt AIRFLOW__ variable is ignored in silence."""
    result = run(str(PROGRAMS / "airflow"), "config", "list", AIRFLOW_HOME=str(tmp_path))
    assert result.returncode == 0, result.stderr
    known, section = set(), ""
    for line in result.stdout.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif name := re.match(r"(?:# )?(\w+) =", line):
            known.add(f"AIRFLOW__{section}__{name.group(1)}".upper())
    assert len(known) > 100
    used = set(re.findall(r"AIRFLOW__[A-Z_]+", DOCKERFILE)) | {
        key for service in SERVICES.values() for key in service.get("environment", {}) if key.startswith("AIRFLOW__")
    }
    assert "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN" in used
    assert used - known == set()


def test_the_printed_override_fits_the_compose_file() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    override = yaml.safe_load(page.split("```yaml containers\n")[1].split("```")[0])
    airflow = {name for name, service in SERVICES.items() if "AIRFLOW__API__BASE_URL" in service.get("environment", {})}
    assert set(override["services"]) == airflow - RUNS_ONCE
    assert all(service == {"environment": override["x-logging"]} for service in override["services"].values())
