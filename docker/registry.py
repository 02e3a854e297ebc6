"""Make the role and the database of the registry in Airflow's PostgreSQL; a second call changes the password alone.

Neither role can connect to the database of the other.
"""

from __future__ import annotations

import os

import psycopg2
from psycopg2 import sql
from sqlalchemy import make_url


def main() -> None:
    """Connect as Airflow, whose role may make others."""
    airflow, registry = (
        make_url(os.environ[name]) for name in ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "HUDI_OPS_REGISTRY")
    )
    role, database = sql.Identifier(registry.username), sql.Identifier(registry.database)
    connection = psycopg2.connect(
        host=airflow.host, user=airflow.username, password=airflow.password, dbname=airflow.database
    )
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [registry.username])
        verb = sql.SQL("ALTER ROLE" if cursor.fetchone() else "CREATE ROLE")
        cursor.execute(sql.SQL("{} {} LOGIN PASSWORD {}").format(verb, role, sql.Literal(registry.password)))
        cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [registry.database])
        if not cursor.fetchone():
            cursor.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(database, role))
        for one in (database, sql.Identifier(airflow.database)):
            cursor.execute(sql.SQL("REVOKE CONNECT ON DATABASE {} FROM PUBLIC").format(one))
    connection.close()


if __name__ == "__main__":
    main()
