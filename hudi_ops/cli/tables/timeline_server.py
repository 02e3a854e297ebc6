"""`hudi-ops timeline-server`: serve the file-system views of tables to many machines."""

from __future__ import annotations

from typing import Annotated

import typer

from hudi_ops.cli.arguments import split_names
from hudi_ops.cli.output import write
from hudi_ops.errors import InvalidRequest, Unsupported

TIMELINE_SERVER_HELP = """Serve the file-system views of tables of tables.yaml, until a signal ends it.

Processes with `view: {server: {url: ...}}` ask it for the list of a table's files, before they list the table. It reads tables and
changes none. A server that is dead, slow or wrong costs its clients a second, and never changes a result.

Without a token it listens on this machine's loopback alone. GET /health, /ready and /v1/status tell its state.

\b
hudi-ops timeline-server
hudi-ops timeline-server --tables flights,trips --host 0.0.0.0 --token-file token --tls-cert cert.pem --tls-key key.pem
"""


def timeline_server(
    tables: Annotated[
        str | None, typer.Option(help="Names of tables in tables.yaml, separated by commas. Default: all.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 26760,
    token_file: Annotated[
        str | None, typer.Option(help="File with the token that requests must have; mode 600.")
    ] = None,
    tls_cert: Annotated[str | None, typer.Option(help="PEM file of the certificate, for https.")] = None,
    tls_key: Annotated[str | None, typer.Option(help="PEM file of its key.")] = None,
    memory_mb: Annotated[
        int, typer.Option(min=16, help="Megabytes of views and encoded partitions, of all tables.")
    ] = 512,
    states: Annotated[int, typer.Option(min=1, max=1000, help="States of a table that are held.")] = 16,
) -> None:
    """Serve the file-system views of tables.

    Raises:
        InvalidRequest: an unknown table, no table at all, or an address, a token or certificates that cannot be used.
        Unsupported: the extra `server` is not installed.
    """
    from hudi_ops.config.tables_file import load_tables, locate_table

    try:
        from hudi_ops.server.limits import Limits
        from hudi_ops.server.run import Listener, serve
    except ImportError as error:
        raise Unsupported(
            f"the timeline server needs packages that are not installed: {error.name}",
            next_step="pip install 'hudi-ops[server]'",
        ) from error
    declared = load_tables()
    names = split_names(tables, "--tables") or tuple(declared.tables)
    if not names:
        raise InvalidRequest(f"{declared.file} declares no table", next_step="declare one")
    for name in names:
        declared.get(name)
    locations = {name: locate_table(name, declared) for name in names}
    listener = Listener(host, port, token_file, tls_cert, tls_key)
    limits = Limits(states=states, memory_bytes=memory_mb << 20)
    serve(locations, listener, limits, lambda url: write(f"serving {', '.join(names)} at {url}"))
