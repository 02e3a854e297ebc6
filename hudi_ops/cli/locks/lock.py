"""`hudi-ops lock`: the holder of a table's lock, the queue for it, and the live leases."""

from __future__ import annotations

from typing import Any

from hudi_ops.cli.arguments import JsonOption, TableArgument, locate, storage_of
from hudi_ops.cli.output import counted, write, write_json, write_table

LOCK_HELP = """Show who uses a table: the holder of its lock, the processes that wait for it, and the leases of pending instants.

The place to look when something is stuck. A lock that holds inside one process cannot be seen from outside; leases can. Of
Apache Hudi's writers only what their lock nodes and heartbeats say is known.

There is no option that breaks a lock. It goes by itself when its holder's process ends, or when ZooKeeper has not heard of it
for 15 s. If a holder hangs, end its process: the lock only spares retries, what was decided stays decided, and the next write
finishes or rolls back what it left.

\b
hudi-ops lock flights
hudi-ops lock /data/trips --json
"""


def lock(table: TableArgument, as_json: JsonOption = False) -> None:
    """Show who holds a table's lock, who waits for it, and who works on its instants."""
    from hudi_ops.services.inspect.locks import describe_lock
    from hudi_ops.timeline.settings.properties_file import load_config

    location = locate(table)
    storage = storage_of(location)
    load_config(storage)  # raises an error if there is no table
    found = describe_lock(location, storage)
    if as_json:
        write_json(found)
        return
    _tell_line(location.name, found["lock"], found["line"] if found["is_visible"] else None)
    _tell_leases(found["leases"], found["lock"])


def _tell_line(name: str, address: str, line: list[dict[str, Any]] | None) -> None:
    if line is None:
        write(f"{name}: its lock holds inside one process ({address}) and cannot be seen from outside.")
        write("Where several processes write, declare `lock: zookeeper://…` in tables.yaml.")
        return
    if not line:
        write(f"{name}: {address} is free")
        return
    write(f"{name}: {address} is held, {counted(len(line) - 1, 'other')} in line")
    columns = ("owner", "host", "run", "purpose", "since")
    rows = [["holds" if not at else str(at), *(one[column] for column in columns)] for at, one in enumerate(line)]
    write_table(("place", *columns), rows)


def _tell_leases(leases: list[dict[str, Any]], address: str) -> None:
    if not leases:
        write("No instant is worked on.")
        return
    columns = ("instant", "role", "owner", "run", "beaten", "expires")
    rows = [[*(one[column] for column in columns), "live" if one["is_live"] else "dead"] for one in leases]
    write_table((*columns, "state"), rows)
    if not all(one["is_live"] for one in leases):
        write("What is dead is finished or rolled back by the next write.")
    for one in leases:
        if one["is_live"] and one["lock"] not in {None, address} and not one["lock"].startswith(f"{address}:"):
            write(
                f"Warning: {one['instant']} is written under another lock, {one['lock']}: they do not exclude each other."
            )
