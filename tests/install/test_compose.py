"""Every service of docker-compose.yaml starts, and the DAG ingests flights.

Goal: the file is observed to work, not only linted. Method: its commands and environments on this machine, without containers.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(1800)
def test_every_service_starts_and_flights_are_ingested() -> None:
    result = subprocess.run(
        [sys.executable, ROOT / "docker" / "compose_check.py"], cwd=ROOT, capture_output=True, text=True, timeout=1700
    )
    assert result.returncode == 0, result.stdout + result.stderr
    services = yaml.safe_load((ROOT / "docker-compose.yaml").read_text(encoding="utf-8"))["services"]
    ready = {line.split()[0] for line in result.stdout.splitlines() if " healthy " in line or " ended well " in line}
    assert ready == set(services)
    assert "ingestion of flights" in result.stdout
    assert "registry                 has flights" in result.stdout
