"""docker/registry.py gives the registry a role and a database of its own, beside Airflow's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg2
import pytest

from hudi_ops.registry.migrate import migrate
from tests.postgres import Postgres

PROGRAM = Path(__file__).resolve().parents[3] / "docker" / "registry.py"


def test_the_registry_has_a_role_and_a_database_of_its_own(postgres: Postgres) -> None:
    airflow, host = postgres.new_database(), f"127.0.0.1:{postgres.port}"
    registry = f"postgresql+psycopg2://hudi_ops:it's@{host}/hudi_ops"
    environment = {
        **os.environ,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://postgres:x@127.0.0.1/{airflow}",
        "PGPORT": str(postgres.port),
        "HUDI_OPS_REGISTRY": registry,
    }
    for _ in range(2):
        subprocess.run([sys.executable, PROGRAM], env=environment, check=True, timeout=60)
    assert migrate(registry)[0] == ""
    with pytest.raises(psycopg2.OperationalError, match="permission denied"):
        psycopg2.connect(host="127.0.0.1", port=postgres.port, user="hudi_ops", dbname=airflow)
