"""Link a task to the page of the table that it works on."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

ROUTE = "hudi-ops"
"""Route of the page in Airflow's UI, and prefix of its own paths on the server."""


class TableLink(BaseOperatorLink):
    """Link to the page of a task's table; of a task that works on many tables, to the list."""

    name = "Hudi table"

    # Airflow's own tasks pass the task instance where the base class speaks of its key.
    def get_link(self, operator: BaseOperator, *, ti_key: RuntimeTaskInstanceProtocol) -> str:  # type: ignore[override]
        """Return the address of the page within Airflow's UI.

        Args:
            operator: of the task, whose arguments are rendered.
            ti_key: task instance.
        """
        arguments = [str(one) for one in getattr(operator, "application_args", None) or ()]
        table = next((one.removeprefix("--table=") for one in arguments if one.startswith("--table=")), "")
        return page_of(table, str(conf.get("api", "base_url", fallback="") or ""))


def page_of(table: str, base_url: str) -> str:
    """Return the address of a table's page within Airflow's UI.

    Airflow shows a page of a plugin in a frame, and repeats the path of the frame behind its own.

    Args:
        table: a name of tables.yaml; empty: the list of tables.
        base_url: of Airflow, perhaps behind a proxy at a path.
    """
    base = base_url.rstrip("/")
    within = f"{urlsplit(base).path}/{ROUTE}/" + (f"tables/{quote(table, safe='')}" if table else "")
    return f"{base}/plugin/{ROUTE}{within}"
