"""`hudi-ops zookeeper`: the embedded ZooKeeper server, for one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hudi_ops.cli.arguments import JsonOption, TableArgument, locate, open_table
from hudi_ops.cli.output import write, write_json
from hudi_ops.concurrency.lock.embedded_zookeeper import EmbeddedZooKeeper, ServerStatus
from hudi_ops.errors import Unavailable

app = typer.Typer(
    name="zookeeper",
    help="Start and stop a ZooKeeper server on this machine, for the locks of tables.",
    no_args_is_help=True,
)

_Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="Folder of the server: settings, log and data.")]


@app.command()
def start(
    data: _Data = Path(".zookeeper"),
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.", min=0, max=65535)] = 21810,
    as_json: JsonOption = False,
) -> None:
    """Start the server, and return once it serves. Does nothing when it runs already."""
    server = EmbeddedZooKeeper(data, port)
    was_started = server.start()
    status = server.status()
    said = "started" if was_started else "was running already"
    _print(status, as_json, f"ZooKeeper {said} at {status.hosts} (pid {status.pid})", was_started=was_started)


@app.command(help="Say whether the server runs and serves. Ends with 13 when it does not serve.")
def status(data: _Data = Path(".zookeeper"), as_json: JsonOption = False) -> None:
    """Say whether the server runs and serves.

    Raises:
        Exit: the server does not serve.
    """
    status = EmbeddedZooKeeper(data).status()
    if status.is_serving:
        said = f"ZooKeeper serves at {status.hosts} (pid {status.pid})"
    elif status.is_running:
        said = f"ZooKeeper runs (pid {status.pid}) and does not answer at {status.hosts}: see {data / 'server.log'}"
    else:
        said = f"no ZooKeeper runs with its data in {data}"
    _print(status, as_json, said)
    if not status.is_serving:
        raise typer.Exit(Unavailable.exit_code)


@app.command()
def stop(data: _Data = Path(".zookeeper"), as_json: JsonOption = False) -> None:
    """Stop the server; its data stays. Does nothing when it does not run."""
    server = EmbeddedZooKeeper(data)
    was_stopped = server.stop()
    said = "ZooKeeper stopped" if was_stopped else f"no ZooKeeper runs with its data in {data}"
    _print(server.status(), as_json, said, was_stopped=was_stopped)


@app.command()
def protect(table: TableArgument, as_json: JsonOption = False) -> None:
    """Restrict a table's lock to clients with the configured credentials.

    Locks that hudi-ops makes are protected from the start, where credentials are configured and no writer of Apache Hudi
    shares the table. This is for locks that are there already and open to all. Writers without the credentials cannot
    take the lock afterwards.
    """
    location = locate(table)
    with open_table(location) as opened:
        address = opened.protect_lock()
    if as_json:
        write_json({"table": location.name, "lock": address, "is_protected": True})
    else:
        write(f"{location.name}: only those with the configured credentials can take {address}, or delete its nodes")


def _print(status: ServerStatus, as_json: bool, said: str, **facts: bool) -> None:
    if as_json:
        write_json({**status.as_dict(), **facts})
    else:
        write(said)
