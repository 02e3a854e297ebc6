#!/usr/bin/env bash
# Prepares what Airflow's services share, before they start: the databases and the administrator's password.
set -euo pipefail

airflow db migrate
python docker/registry.py
hudi-ops registry migrate

# The file is read by the API server only; the password itself comes from the environment and is in no image.
umask 077
python - <<'PYTHON'
import json
import os
import pathlib

file = pathlib.Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
file.write_text(json.dumps({"admin": os.environ["AIRFLOW_ADMIN_PASSWORD"]}))
PYTHON
