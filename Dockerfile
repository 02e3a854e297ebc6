# One image for Airflow's services and for Spark's: driver and executors must agree in Python, Spark and hudi_ops to the last
# digit. It is filled by the same commands as bin/bootstrap fills .venv, from a lock without the packages of tests.
FROM python:3.11.13-slim-bookworm

SHELL ["/bin/bash", "-euo", "pipefail", "-c"]

# Java's patch level follows Debian's security updates on purpose; procps has the ps that Spark's scripts call.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 50000 --gid 0 --create-home --home-dir /home/hudi-ops hudi-ops

WORKDIR /opt/hudi-ops

# The user of the containers may not write what Python compiles: without this, each process compiles all that it imports.
ENV UV_COMPILE_BYTECODE=1

# Before the code: a change of code then leaves this layer, the big one, as it is.
COPY requirements-image.lock ./
RUN python -m venv .tools/venv \
    && .tools/venv/bin/python -m pip install --no-cache-dir uv==0.13.8 \
    && .tools/venv/bin/uv venv --python /usr/local/bin/python .venv \
    && .tools/venv/bin/uv pip sync --no-cache --python .venv/bin/python --require-hashes requirements-image.lock

COPY pyproject.toml setup.py README.md LICENSE tables.yaml ./
COPY docker/ docker/
COPY examples/flights_data.py examples/
COPY hudi_ops/ hudi_ops/
COPY spark_apps/ spark_apps/
COPY dags/ dags/
COPY plugins/ plugins/
# A volume mounted on one of these folders takes over its owner.
RUN .tools/venv/bin/uv pip install --no-cache --python .venv/bin/python --no-deps --editable . \
    && .venv/bin/python -m compileall -q hudi_ops \
    && install -d -o 50000 -g 0 -m 0770 airflow airflow/logs data work

ENV PATH=/opt/hudi-ops/.venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYSPARK_PYTHON=/opt/hudi-ops/.venv/bin/python \
    HUDI_OPS_HOME=/opt/hudi-ops \
    AIRFLOW_HOME=/opt/hudi-ops/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/hudi-ops/dags \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/hudi-ops/plugins \
    AIRFLOW__CORE__LOAD_EXAMPLES=False

USER 50000
CMD ["hudi-ops", "--help"]
