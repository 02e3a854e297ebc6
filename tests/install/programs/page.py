"""Open the page of an installed hudi-ops in Airflow's API application, as a user who signed in; print what it shows as JSON."""

from __future__ import annotations

import json
import re
from typing import Any


def shown() -> dict[str, Any]:
    """Return what the page answers: statuses, and whether it names the table."""
    from airflow.api_fastapi.app import create_app, get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from starlette.testclient import TestClient

    with TestClient(create_app(apps="core"), base_url="http://127.0.0.1") as client:
        anonymous = client.get("/hudi-ops/").status_code
        token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="admin", role="admin"))
        client.headers["Authorization"] = f"Bearer {token}"
        pages = {name: client.get(f"/hudi-ops/{name}") for name in ("", "tables/rides")}
        # Every address in both pages is relative; what they load lies beside the list.
        found = {name for page in pages.values() for name in re.findall(r"assets/[\w.-]+(?:\?[\w=.-]+)?", page.text)}
        return {
            "anonymous": anonymous,
            "pages": {name: [page.status_code, "rides" in page.text] for name, page in pages.items()},
            "assets": {name: client.get(f"/hudi-ops/{name}").status_code for name in sorted(found)},
            "errors": client.get("/api/v2/plugins/importErrors").json()["import_errors"],
        }


if __name__ == "__main__":
    print(json.dumps(shown()))
