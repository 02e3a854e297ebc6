"""Read the words of a command, and make the configuration of a DAG run that does the same.

Words come from the network. The command line's own parser reads them, and an option that is not known to be harmless is refused:
some import a class (`--split-point`), or change what is safe (`--accept-future-instants`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any, NamedTuple, NoReturn

import typer

from hudi_ops.cli.main import WrongCall, app
from hudi_ops.cli.options import request_of
from hudi_ops.cli.planned import mode_and_partition
from hudi_ops.cli.services import archive, clean, cluster, compact, index, resize
from hudi_ops.config.doors import door_of, form_fields, form_values, refuse_unsafe, request_of_arguments, schemas
from hudi_ops.config.places import PROGRAM
from hudi_ops.config.requests import RecoverRequest, Request, merged
from hudi_ops.config.tables_file import TableDeclaration
from hudi_ops.config.upkeep_settings import AUTOMATIC
from hudi_ops.errors import InvalidRequest
from hudi_ops.page.services import BY_COMMAND, WORD_MAX, WORDS_MAX, Service, dag_ids, service_of

EXECUTE = "execute"

TO_PREVIEW: tuple[str, ...] = ("--dry-run", "--json")
"""Options of a preview. They come first, so that no word before them can take them for its value."""

_OF_PLANS = frozenset({"instant", "abandoned"})
"""Options that a preview takes although no form has them: checks advise them."""

_FUNCTIONS = {
    "compaction": compact.compact,
    "clustering": cluster.cluster,
    "resizing": resize.resize,
    "clean": clean.clean,
    "archive": archive.archive,
    "indexing": index.index,
}


@dataclass(frozen=True)
class Command:
    """Command that was read from words.

    Attributes:
        service: that it asks for.
        words: without the program; those that the schedule of `tables.yaml` adds among them.
        mode: `run` or `execute`.
        request: of the service.
        instant: plan that is executed; empty: the oldest one.
        dags: ids of the DAGs that may run it, the preferred first.
        why_not: why no DAG run does the same; empty: one does.
        notes: further facts for users.
    """

    service: Service
    words: tuple[str, ...]
    mode: str
    request: Request
    instant: str
    dags: tuple[str, ...]
    why_not: str = ""
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the command as a line for a shell."""
        return shlex.join([PROGRAM, *self.words])

    def arguments(self) -> list[str]:
        """Return the words of its dry run."""
        return [self.words[0], *TO_PREVIEW, *self.words[1:]]


def command_of(words: Sequence[str], table: str, declared: TableDeclaration) -> Command:
    """Read the words of a command on a table.

    Args:
        words: without the program.
        table: name of the table; the words must name it as well.
        declared: its declaration, whose schedule fills in what the words leave out.

    Raises:
        InvalidRequest: they are no such command, or have an option that the page does not take.
    """
    service = _checked(words, table)
    given = _read(service, words, table)
    schedule = declared.schedules.get(service.dag)
    scheduled = dict(schedule.request) if schedule is not None and given.mode != EXECUTE else {}
    # An advised option may contradict one of the schedule; a command with options stands as it is.
    added = {} if given.names else scheduled
    if added:
        options = _options(service, merged(service.request, None, added), added)
        given = _read(service, (*words, *options), table, added)
    refuse_unsafe(service.request, {name: getattr(given.request, name) for name in given.names if name not in added})
    ids: tuple[str, ...] = dag_ids(service, table)
    if any(name not in form_fields(service.request) for name in scheduled):
        # The DAG of the schedule adds these to the values of a form; the form of the other DAG lacks them.
        ids = ids[:1] if added else ids[1:]
    unoffered = [name for name in given.names if name not in form_fields(service.request) and name not in added]
    notes = [f"with the options of its schedule in tables.yaml: {', '.join(added)}"] if added else []
    why_not = ""
    if unoffered and unoffered != ["instant"]:
        said = ", ".join(f"--{name.replace('_', '-')}" for name in unoffered)
        why_not = f"The form of the DAG {service.dag} has no field for {said}: run the command."
    return Command(
        service,
        given.words,
        given.mode,
        given.request,
        str(getattr(given.request, "instant", None) or ""),
        ids,
        why_not,
        tuple(notes),
    )


def conf_of(command: Command, table: str, declared: TableDeclaration) -> dict[str, Any] | None:
    """Return the configuration of a DAG run that does what a command does.

    None: the form has no way to say it.
    It names every field of the form, so that it does not depend on defaults of the form.

    Args:
        command: that no `why_not` keeps from a DAG run.
        table: its name.
        declared: its declaration, whose settings the configuration repeats: a form would say its defaults in their place.
    """
    model, offered = command.service.request, form_fields(command.service.request)
    wanted = completed(command.request, command.service, declared)
    values = form_values(model, {name: getattr(wanted, name) for name in offered})
    conf = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    meant = completed(request_of_conf(command.service, conf), command.service, declared)
    is_same = all(getattr(meant, name) == getattr(wanted, name) for name in offered)
    return {"table": table, **conf} if is_same else None


def request_of_conf(service: Service, conf: Mapping[str, Any]) -> Request:
    """Return the request that the application of a service makes of a form's values.

    Raises:
        InvalidRequest: a wrong value.
    """
    model = service.request
    return request_of_arguments(model, [_argument(model, name, value) for name, value in conf.items()])


def completed(request: Request, service: Service, declared: TableDeclaration) -> Request:
    """Return a request with the settings of the table in place of those that it does not give."""
    if service.dag not in AUTOMATIC:
        return request
    made: Request = getattr(declared, service.dag).completed(request)
    return made


class _Option(NamedTuple):
    """Option that was given: its field, its name, and whether it may be given again."""

    name: str
    option: str
    is_list: bool


@dataclass(frozen=True)
class _Given:
    """Words with what the parser made of them; `names` are the fields that they give."""

    words: tuple[str, ...]
    mode: str
    request: Request
    names: tuple[str, ...]


def _checked(words: Sequence[str], table: str) -> Service:
    """Return the service that the words name; refuse too many, too long or unprintable words.

    Raises:
        InvalidRequest: too many or too long ones, control characters, or no command of a DAG.
    """
    service = service_of(words)
    if service is None:
        raise InvalidRequest(
            "no DAG does what this command does",
            table=table,
            expected=f"a command of {', '.join(sorted(BY_COMMAND))}",
            found=repr(" ".join(words[:1])[:100]),
            next_step="run the command in a shell",
        )
    if len(words) > WORDS_MAX or any(len(word) > WORD_MAX or not word.isprintable() for word in words):
        raise InvalidRequest(
            "the words are no command",
            table=table,
            expected=f"at most {WORDS_MAX} words of {WORD_MAX:,} printable characters",
            found=f"{len(words)} words",
        )
    return service


def _read(service: Service, words: Sequence[str], table: str, trusted: Iterable[str] = ()) -> _Given:
    """Read words by the command line's own parser, and refuse what the page does not take.

    Args:
        service: of the words.
        words: without the program.
        table: that they must name.
        trusted: fields that `tables.yaml` gives.

    Raises:
        InvalidRequest: the parser refuses them, they name another table, give an option twice, or one that is not taken. Raised
            by `_refuse`.
    """
    options = TO_PREVIEW if service.previews else TO_PREVIEW[1:]
    values, order = _parsed([words[0], *options, *words[1:]])
    taken = {*form_fields(service.request), *_OF_PLANS, *trusted} - {"dry_run"}
    named = [one.name for one in order if one.name not in {"dry_run", "as_json"}]
    # The command line takes a list of policies, to refuse a second one by itself.
    again = [one.option for one in order if order.count(one) > 1 and (not one.is_list or one.name == "policy")]
    wrong = [one.option for one in order if one.name in named and one.name not in taken]
    if values["table"] != table:
        _refuse(words, f"it is not on the table {table}")
    if again or wrong:
        _refuse(words, f"it has {again[0]} twice" if again else f"the page does not take {wrong[0]}")
    if not values.get("dry_run", not service.previews) or not values["as_json"]:
        _refuse(words, "it hides that it is a preview")
    mode, request = _request(service, values)
    if mode not in {"run", EXECUTE}:
        _refuse(words, f"the page previews what is run or executed, not {mode}")
    names = tuple(dict.fromkeys([*named, *(request.model_fields_set & {"partitions"})]))
    return _Given(tuple(words), mode, request, names)


def _refuse(words: Sequence[str], why: str) -> NoReturn:
    """Refuse the words of a command.

    Raises:
        InvalidRequest: always.
    """
    raise InvalidRequest(
        f"this command cannot be previewed here: {why}",
        found=shlex.join([PROGRAM, *words])[:WORD_MAX],
        next_step="run the command in a shell",
    )


def _parsed(words: Sequence[str]) -> tuple[dict[str, Any], list[_Option]]:
    """Return the values of a command's parameters, and the given options in their order.

    Raises:
        InvalidRequest: the parser refuses the words, or they ask for help.
    """
    command: Any = typer.main.get_command(app).commands[words[0]]  # type: ignore[attr-defined]
    try:
        with redirect_stdout(StringIO()):
            context = command.make_context(words[0], list(words[1:]))
            _, _, order = command.make_parser(context).parse_args(list(words[1:]))
    except WrongCall as error:
        raise InvalidRequest(
            error.format_message() if hasattr(error, "format_message") else str(error),
            next_step=f"{PROGRAM} {words[0]} --help",
        ) from None
    except typer.Exit:
        _refuse(words, "it asks for help")
    given = [one for one in order if one.param_type_name == "option"]
    return context.params, [_Option(one.name, one.opts[0], bool(one.multiple)) for one in given]


def _request(service: Service, values: Mapping[str, Any]) -> tuple[str, Request]:
    """Return the mode and the request that a command makes of its parameters.

    Raises:
        InvalidRequest: a wrong value.
    """
    given: dict[str, Any] = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    if service.dag == "recover":
        return "run", RecoverRequest(**({"abandoned": True} if given["abandoned"] else {}))
    mode, more = str(given.get("mode") or "run"), dict[str, Any]()
    request = request_of(_FUNCTIONS[service.dag], given)
    if service.dag == "clean" and given["policy"]:
        more["policy"] = given["policy"][-1]
    elif service.dag == "resizing":
        mode, path = mode_and_partition([given["partition"], given["mode"]])
        more = {"partitions": (path, *request.partitions)} if path is not None else {}
    elif service.dag == "indexing":
        action, names = index.parsed_words(given["words"] or [])
        mode, more = str(action), {"partitions": names} if names else {}
    made: Request = _with(request, more)
    return str(mode), made


def _with(request: Request, values: Mapping[str, Any]) -> Request:
    """Return a request with other values of some fields, and without a dry run."""
    kept = {name: getattr(request, name) for name in request.model_fields_set if name != "dry_run"}
    return type(request)(**{**kept, **values})


def _options(service: Service, request: Request, names: Iterable[str]) -> list[str]:
    """Return the words that give some fields of a request on the command line."""
    words, model = list[str](), service.request
    for name in names:
        value, door = getattr(request, name), door_of(model.model_fields[name])
        option = f"--{door.option or name.replace('_', '-')}"
        if value is None or value == ():
            continue
        if service.dag == "indexing" and name == "partitions":
            words = ["run", *value, *words]
        elif isinstance(value, bool):
            words += [option] if value else []
        elif isinstance(value, tuple):
            parts = [",".join(value)] if name == "sort_by" else list(value)
            words += [word for part in parts for word in (option, part)]
        elif door.unit == "seconds" or (name == "threshold" and getattr(request, "strategy", "") == "age"):
            words += [option, f"{value:.3f}s"]
        else:
            words += [option, str(int(value) if isinstance(value, float) and value == int(value) else value)]
    return words


def _argument(model: type[Request], name: str, value: Any) -> str:
    """Return the argument of an application for a value of a form.

    Raises:
        InvalidRequest: the value is a map, or a list in place of a text.
    """
    separator = door_of(model.model_fields[name]).separator or ","
    if isinstance(value, list) and "array" in schemas(model)[name]["type"]:
        value = separator.join(map(str, value))
    if isinstance(value, dict | list):
        raise InvalidRequest(f"{name} cannot be {str(value)[:100]!r}", expected="a text or a number", field=name)
    said = str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
    return f"--{name.replace('_', '-')}={said}"
