"""`tables.yaml`: the tables that DAGs, applications and the CLI know by name.

DAG files read it on every parse, so this module imports pydantic and YAML only. Relative paths are relative
to the file itself, so that a name means the same table wherever the process that reads it was started.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from hudi_ops.config.conflict_settings import ConflictSettings
from hudi_ops.config.definition import ColumnNames, DefinitionFields, TableKind, WriterFields
from hudi_ops.config.requests import PathText, known_fields
from hudi_ops.config.requests.schedule import Schedule, did_you_mean, refuse_credentials, schedule_of
from hudi_ops.config.requests.targets import HealthTargets
from hudi_ops.config.upkeep_settings import AUTOMATIC, UpkeepSettings
from hudi_ops.config.write_settings import ViewSettings
from hudi_ops.errors import InvalidRequest

ENVIRONMENT_VARIABLE = "HUDI_OPS_TABLES"
FILE_NAME = "tables.yaml"

_URI = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_HOST = r"[A-Za-z0-9_.\-\[\]:]+:\d{1,5}"
_LOCK = re.compile(rf"in-process|zookeeper://{_HOST}(,{_HOST})*(/[A-Za-z0-9_.\-]+)+/?")
_MAX_PROBLEMS = 5

TableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.\-]*$", max_length=200)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class TableDeclaration(_Model, DefinitionFields, WriterFields):
    """One table of `tables.yaml`: its place, its definition, and the options of its writers."""

    record_key: ColumnNames = Field(min_length=1, description="Columns that identify a row.")
    path: PathText = Field(min_length=1, description="Folder or URI of the table; relative to the file.")
    type: TableKind = Field(default="cow", description="Copy-on-write (cow) or merge-on-read (mor).")
    source: PathText | None = Field(
        default=None, min_length=1, description="Folder that ingestion takes files from by default."
    )

    targets: HealthTargets = Field(
        default=HealthTargets(), description="Targets of the table's health, before those of the file."
    )
    schedules: dict[str, Schedule] = Field(
        default_factory=dict,
        description="Schedule of each service: a cron expression, or a mapping of schedule and fields of the request.",
    )

    @property
    def definition(self) -> dict[str, Any]:
        """Return the declared definition of the table, as keywords of a `TableDefinition`."""
        return {name: getattr(self, name) for name in DefinitionFields.model_fields} | {"table_type": self.type}

    def request_fields(self, service: str) -> dict[str, Any]:
        """Return fields of a service's request that are declared outside its schedule."""
        if service not in AUTOMATIC:
            return {}
        found: dict[str, Any] = getattr(self, service).model_dump(exclude={"automatic"}, exclude_none=True)
        return found

    @field_validator("record_key", "partition_by")
    @classmethod
    def _no_column_twice(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"names a column twice: {', '.join(twice)}")
        return names

    @field_validator("schedules", mode="before")
    @classmethod
    def _known_services(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            raise ValueError("must be a mapping of services and their schedules, such as {ingestion: '@hourly'}")
        return {str(service): schedule_of(str(service), one) for service, one in given.items()}

    @model_validator(mode="after")
    def _has_work_for_schedules(self) -> TableDeclaration:
        if "compaction" in self.schedules and self.type != "mor":
            raise ValueError("schedules.compaction: the table is copy-on-write, only type: mor is compacted")
        if "resizing" in self.schedules and self.bucket_engine == "simple":
            raise ValueError(
                "schedules.resizing: the table has no hash rings, only bucket_engine consistent or extendible is resized"
            )
        ingestion = self.schedules.get("ingestion")
        if ingestion is not None and not (self.source or ingestion.request.get("source")):
            raise ValueError("schedules.ingestion: names no source, and the table has none either")
        return self

    @field_validator("path", "source")
    @classmethod
    def _no_credentials(cls, uri: str | None) -> str | None:
        refuse_credentials(uri)
        return uri


class TablesFile(_Model):
    """A whole `tables.yaml`, with every path made absolute."""

    file: Path = Field(description="Where it was read from.")
    lock: str | None = Field(
        default=None, description="Lock of all tables, zookeeper://host:port/path; none: one process only."
    )
    zookeeper: dict[str, Any] | None = Field(
        default=None, repr=False, description="Credentials and TLS for the lock; see ZooKeeperSettings."
    )
    targets: HealthTargets = Field(
        default=HealthTargets(), description="Targets of the health of all tables, where a table declares none."
    )
    tables: dict[TableName, TableDeclaration] = Field(default_factory=dict)

    @field_validator("lock")
    @classmethod
    def _lock_is_a_zookeeper_url(cls, lock: str | None) -> str | None:
        refuse_credentials(lock)
        if lock is not None and not _LOCK.fullmatch(lock):
            raise ValueError("must read zookeeper://host:port/path or in-process")
        return lock

    @model_validator(mode="after")
    def _no_path_twice(self) -> TablesFile:
        seen: dict[str, str] = {}
        for name, table in self.tables.items():
            other = seen.setdefault(_absolute(table.path, self.file.parent), name)
            if other != name:
                raise ValueError(f"tables {other} and {name} have the same path {table.path}")
        return self

    def get(self, name: str) -> TableDeclaration:
        """Return the declaration of one table.

        Args:
            name: its name in the file.

        Raises:
            InvalidRequest: no table of that name.
        """
        if name not in self.tables:
            raise InvalidRequest(
                f"{self.file} declares no table {name!r}",
                expected=f"one of {', '.join(sorted(self.tables)) or '(none declared)'}",
                found=name,
                next_step=did_you_mean(name, self.tables) or f"declare it in {self.file}, or give the table's path",
            )
        return self.tables[name]


class TableLocation(_Model):
    """Place and lock of the table that a TABLE argument names; a bare path has no `declaration`."""

    name: str
    path: PathText
    lock: str | None
    declaration: TableDeclaration | None
    zookeeper: dict[str, Any] | None = Field(default=None, repr=False)
    targets: HealthTargets = HealthTargets()
    """Targets of the table's health."""
    folder: Path = Path()
    """Folder to which files in `zookeeper` are relative."""

    @property
    def view(self) -> ViewSettings:
        """Return where processes keep the table's view."""
        return self.declaration.view.named(self.name) if self.declaration is not None else ViewSettings()

    def options(self, *, accept_future: bool = False) -> dict[str, Any]:
        """Return the writer options of `tables.yaml`, as keywords; none for a bare path.

        Its defaults of index and buckets are no statement about a table that Apache Hudi made, and are left out.

        Args:
            accept_future: let new instants follow one in the future, even against `tables.yaml`.
        """
        found: dict[str, Any] = {}
        if self.declaration is not None:
            found = {name: getattr(self.declaration, name) for name in WriterFields.model_fields} | {"view": self.view}
            upkeep = UpkeepSettings(self.declaration.clean, self.declaration.archive).beside(self.declaration.schedules)
            found |= {"clean": upkeep.clean, "archive": upkeep.archive}
            stated = {
                "index",
                "bucket_engine",
                "buckets",
                "buckets_min",
                "buckets_max",
            } & self.declaration.model_fields_set
            found |= {name: getattr(self.declaration, name) for name in stated}
        if accept_future:
            settings = found.get("conflicts") or ConflictSettings()
            found["conflicts"] = settings.model_copy(update={"accept_future_instants": True})
        return found


def find_tables_file(path: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the path of `tables.yaml`: argument, environment, or upwards from this folder.

    Args:
        path: given by the caller; wins over everything.

    Raises:
        InvalidRequest: the argument or the environment names a file that does not exist, or the working folder is gone.
    """
    for origin, given in (
        ("argument", path),
        (f"environment variable {ENVIRONMENT_VARIABLE}", os.environ.get(ENVIRONMENT_VARIABLE)),
    ):
        if given:
            if not Path(given).is_file():
                raise InvalidRequest(
                    f"the tables file {given} does not exist",
                    expected="a YAML file that declares tables",
                    next_step=f"correct the {origin}",
                )
            return Path(given).absolute()
    folder = _working_folder()
    # Not Path.is_file, which raises where this user may not enter the folder.
    names = [here / FILE_NAME for here in (folder, *folder.parents)]
    return next((name for name in names if os.path.isfile(name)), None)  # noqa: PTH113


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise InvalidRequest(
            f"the working folder cannot be used: {error.strerror}",
            expected="a folder that exists and that the user of this process may enter",
            next_step="change to another folder (cd), then run the same command again",
        ) from error


def load_tables(path: str | os.PathLike[str] | None = None) -> TablesFile:
    """Read and check the `tables.yaml` in force.

    Args:
        path: the file; None searches as `find_tables_file` does.

    Returns:
        The declarations, paths made absolute.

    Raises:
        InvalidRequest: no file, not YAML, or a value that is not allowed; names the file and the field.
    """
    file = find_tables_file(path)
    if file is None:
        raise InvalidRequest(
            f"no {FILE_NAME} in {_working_folder()} or above it",
            next_step=f"create one, or point {ENVIRONMENT_VARIABLE} at yours",
        )
    content = _parse(file)
    if "file" in content:  # the model has this field, but the file must not set it
        raise InvalidRequest(f"{file} is not valid:\n  file: unknown setting", next_step="remove it")
    try:
        read = TablesFile.model_validate({**content, "file": file})
    except ValidationError as error:
        raise InvalidRequest(_describe(file, error), next_step="correct the file") from error
    return read.model_copy(
        update={"tables": {name: _resolved(table, file.parent) for name, table in read.tables.items()}}
    )


def locate_table(
    table: str | os.PathLike[str], tables_file: str | os.PathLike[str] | TablesFile | None = None
) -> TableLocation:
    """Turn a TABLE argument, a name of `tables.yaml` or a path, into a place and its lock.

    A path that `tables.yaml` declares gets that file's lock: two doors to one table must not use two locks.

    Args:
        table: a declared name, a folder or a URI.
        tables_file: as for `load_tables`, or what that returned.

    Raises:
        InvalidRequest: neither a declared name nor a path.
    """
    declared = tables_file if isinstance(tables_file, TablesFile) else None
    if not isinstance(tables_file, TablesFile) and (file := find_tables_file(tables_file)):
        declared = load_tables(file)
    if not isinstance(table, str):
        table = str(_working_folder() / table)  # no name of a table
    if declared and table in declared.tables:
        return _declared_location(declared, table)
    if not (_URI.match(table) or "/" in table or table in {".", ".."} or os.path.isdir(table)):  # noqa: PTH112 - is False without rights
        if declared:
            declared.get(table)  # raises, with the names that exist
        raise InvalidRequest(
            f"{table!r} is neither a folder nor the name of a table, since there is no {FILE_NAME}",
            next_step=f"give a path, or point {ENVIRONMENT_VARIABLE} at your {FILE_NAME}",
        )
    path = _absolute(table, _working_folder())
    for name, declaration in declared.tables.items() if declared else ():
        if declared and declaration.path == path:
            return _declared_location(declared, name)
    return TableLocation(name=path.rstrip("/").rpartition("/")[2], path=path, lock=None, declaration=None)


def _declared_location(declared: TablesFile, name: str) -> TableLocation:
    declaration = declared.tables[name]
    return TableLocation(
        name=name,
        path=declaration.path,
        lock=declared.lock,
        declaration=declaration,
        zookeeper=declared.zookeeper,
        targets=declaration.targets.over(declared.targets),
        folder=declared.file.parent,
    )


class _NoDuplicates(yaml.SafeLoader):
    """Loader that refuses a key given twice; YAML would silently drop the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _parse(file: Path) -> Mapping[str, Any]:
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), Loader=_NoDuplicates)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        # Not the whole error: it quotes the line, which may hold a password.
        mark = error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise InvalidRequest(
            f"{file} cannot be read as YAML{where}: {error.problem or error.context}", next_step="correct the file"
        ) from None
    except RecursionError:
        raise InvalidRequest(
            f"{file} cannot be read as YAML: its values are nested too deeply", next_step="correct the file"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise InvalidRequest(f"{file} cannot be read as YAML: {error}", next_step="correct the file") from error
    if not isinstance(content, dict):
        raise InvalidRequest(
            f"{file} does not declare tables",
            expected="a mapping with the key tables",
            found="an empty file" if content is None else type(content).__name__,
        )
    return content


def _describe(file: Path, error: ValidationError) -> str:
    problems = []
    for problem in error.errors()[:_MAX_PROBLEMS]:
        where = ".".join(str(part) for part in problem["loc"]) or "file"
        text = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            *maps, unknown = problem["loc"]
            # Below `tables` and the table's name; that name may be one of a field.
            known = _known_names(maps)
            guess = did_you_mean(str(unknown), sorted(known))
            text = f"unknown setting. {guess}".strip()
        elif problem["type"] == "tuple_type":
            text = f"must be a list of column names, found {problem['input']!r}"
        elif problem["type"] == "string_pattern_mismatch":
            text = f"must begin with a letter or _, and may have letters, digits, _ . and -, found {problem['input']!r}"
        elif problem["type"] != "missing" and problem["loc"][:1] != ("zookeeper",):
            text = (
                f"{text}, found {problem['input']!r}" if not isinstance(problem["input"], (dict, TablesFile)) else text
            )
        problems.append(f"  {where}: {text}")
    more = error.error_count() - len(problems)
    problems += [f"  and {more} more"] if more > 0 else []
    return f"{file} is not valid:\n" + "\n".join(problems)


def _known_names(maps: Sequence[int | str]) -> Collection[str]:
    """Return the names that a map of the file may have; `maps` is the way to it."""
    if not maps:
        return {*TablesFile.model_fields} - {"file"}
    if maps[0] == "targets":
        return known_fields(HealthTargets, maps[1:])
    return known_fields(TableDeclaration, maps[2:])


def _resolved(table: TableDeclaration, folder: Path) -> TableDeclaration:
    changed: dict[str, Any] = {"path": _absolute(table.path, folder)}
    if table.source:
        changed["source"] = _absolute(table.source, folder)
    if (view := table.view.beside(folder)) is not table.view:  # what was not declared stays so
        changed["view"] = view
    return table.model_copy(update=changed)


def _absolute(path: str, folder: Path) -> str:
    return path.rstrip("/") if _URI.match(path) else os.path.normpath(folder / path)
