"""`hudi-ops`: the program, its global options, and the exit code of each kind of error.

Nothing heavy is imported before a command needs it, so that `--help` and completion answer at once.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, NoReturn

import typer

from hudi_ops.cli import paths, registry
from hudi_ops.cli.arguments import as_help
from hudi_ops.cli.locks import lock, zookeeper
from hudi_ops.cli.output import BROKEN_PIPE_EXIT_CODE, write, write_json
from hudi_ops.cli.rows import changes, ingest, remove
from hudi_ops.cli.services import (
    archive,
    cancel,
    clean,
    cluster,
    compact,
    index,
    metadata,
    recover,
    repair,
    resize,
    restore,
    savepoint,
)
from hudi_ops.cli.tables import adopt, alter, create, health, inspect, repair_properties, ring, timeline_server, view
from hudi_ops.cli.without_pandas import leave_pandas_out
from hudi_ops.config.places import PROGRAM
from hudi_ops.errors import HudiOpsError, Internal, InvalidRequest
from hudi_ops.redaction import RedactingFormatter, redacted

INTERRUPTED_EXIT_CODE = 130

app = typer.Typer(
    name=PROGRAM,
    help="Write, read and check Apache Hudi tables. Each command tells more with --help.",
    epilog="A TABLE is a name that tables.yaml declares, or a folder. tables.yaml is found through the environment "
    "variable HUDI_OPS_TABLES, else in the working folder or above it. Exit codes: 0 done, or a race lost, 2 wrong call, "
    "3 not supported, 4 a target of health is missed, 10 lost to another writer, 11 another process holds the lock, writes or "
    "has a pending plan, 12 cancelled on request or by age, 13 a service does not answer, 14 outcome unknown, "
    "20 the table is damaged, 70 a fault of this program.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(help=as_help(create.CREATE_HELP))(create.create)
app.command(help=as_help(adopt.ADOPT_HELP))(adopt.adopt)
app.command(help=as_help(ingest.INGEST_HELP))(ingest.ingest)
app.command(help=as_help(compact.COMPACT_HELP))(compact.compact)
app.command(help=as_help(cluster.CLUSTER_HELP))(cluster.cluster)
app.command(help=as_help(resize.RESIZE_HELP))(resize.resize)
app.command(help=as_help(clean.CLEAN_HELP))(clean.clean)
app.command(help=as_help(archive.ARCHIVE_HELP))(archive.archive)
app.command(help=as_help(cancel.PLANS_HELP))(cancel.plans)
app.command(help=as_help(cancel.CANCEL_HELP))(cancel.cancel)
app.command(name="delete-partition", help=as_help(remove.DELETE_PARTITION_HELP))(remove.delete_partition)
app.command(help=as_help(remove.TRUNCATE_HELP))(remove.truncate)
app.command(help=as_help(recover.ROLLBACK_HELP))(recover.rollback)
app.command(help=as_help(recover.RECOVER_HELP))(recover.recover)
app.command(help=as_help(restore.RESTORE_HELP))(restore.restore)
app.command(help=as_help(repair.REPAIR_HELP))(repair.repair)
app.command(help=as_help(alter.ALTER_HELP))(alter.alter)
app.command(name="repair-properties", help=as_help(repair_properties.REPAIR_PROPERTIES_HELP))(
    repair_properties.repair_properties
)
app.command(help=as_help(inspect.READ_HELP))(inspect.read)
app.command(help=as_help(changes.CHANGES_HELP))(changes.changes)
app.command(help=as_help(inspect.TIMELINE_HELP))(inspect.timeline)
app.command(help=as_help(inspect.SHOW_HELP))(inspect.show)
app.command(help=as_help(ring.RING_HELP))(ring.ring)
app.command(help=as_help(view.VIEW_HELP))(view.view)
app.command(name="timeline-server", help=as_help(timeline_server.TIMELINE_SERVER_HELP))(timeline_server.timeline_server)
app.command(help=as_help(inspect.VERIFY_HELP))(inspect.verify)
app.command(help=as_help(health.HEALTH_HELP))(health.health)
app.command(help=as_help(lock.LOCK_HELP))(lock.lock)
app.command(help=as_help(paths.PATHS_HELP))(paths.paths)
app.command(help=as_help(index.INDEX_HELP))(index.index)
app.add_typer(metadata.app)
app.add_typer(registry.app)
app.add_typer(savepoint.app)
app.add_typer(savepoint.holds)
app.add_typer(zookeeper.app)

# typer brings its own copy of click since 0.20 and shows of it only this class, whose base is what every wrong call raises.
WrongCall: type[Exception] = typer.BadParameter.__bases__[0]


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version

        write(f"{PROGRAM} {version('hudi-ops')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_show_version, is_eager=True)
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Tell on the error output what is done; before the command's name.")
    ] = False,
) -> None:
    """Global options."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(RedactingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("hudi_ops").setLevel(logging.INFO if verbose else logging.WARNING)
    if not verbose:
        # kazoo tells of every lost connection; when it matters, the error that ends the command says so.
        logging.getLogger("kazoo").setLevel(logging.CRITICAL)


def main(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: the command line without the program's name.

    Returns:
        The exit code; an error has been printed.
    """
    as_json = "--json" in arguments
    try:
        code = _command().main(args=list(arguments), prog_name=PROGRAM, standalone_mode=False)
    except HudiOpsError as error:
        return _fail(error, as_json)
    except WrongCall as error:
        return _wrong_call(error, as_json)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED_EXIT_CODE
    except BrokenPipeError:
        return BROKEN_PIPE_EXIT_CODE
    except Exception as error:  # noqa: BLE001
        # The edge of the program: users get a sentence, and with --verbose the stack trace.
        if {"-v", "--verbose"} & set(arguments):
            sys.stderr.write(redacted(traceback.format_exc()))
        return _fail(_unexpected(error), as_json)
    if code == INTERRUPTED_EXIT_CODE:
        _say_error({"error": "Interrupted", "exit_code": code, "message": "interrupted"}, as_json)
    return code if isinstance(code, int) else 0


@cache
def _command() -> Any:
    """Return the program's commands, made once: callers in a process may run many."""
    return typer.main.get_command(app)


def run() -> NoReturn:
    """Run the command line of this process and end the process."""
    leave_pandas_out()
    sys.exit(main(sys.argv[1:]))


def _unexpected(error: Exception) -> Internal:
    return Internal(
        f"unexpected {type(error).__name__}: {error}",
        next_step=f"please report it, with the output of the same call after `{PROGRAM} -v`",
    )


def _wrong_call(error: Any, as_json: bool) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return InvalidRequest.exit_code
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else PROGRAM
    return _fail(InvalidRequest(error.format_message(), next_step=f"{path} --help"), as_json)


def _fail(error: HudiOpsError, as_json: bool) -> int:
    _say_error(error.as_dict(), as_json)
    return error.exit_code


def _say_error(error: dict[str, Any], as_json: bool) -> None:
    if not as_json:
        sys.stderr.write(f"error: {error['message']}\n")
        return
    try:
        write_json(error)
    except typer.Exit:
        return  # the reader of the output is gone


if __name__ == "__main__":
    run()
