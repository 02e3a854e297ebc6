"""Key generators, and the paths of the time-based one (docs/format §6.5, §6.6)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

from hudi_ops.errors import InvalidRequest, Unsupported

KeyGenerator = Literal["auto", "simple", "complex", "timestamp", "non_partitioned"]
KEY_GENERATORS: tuple[KeyGenerator, ...] = get_args(KeyGenerator)

_TYPES = {"simple": "SIMPLE", "complex": "COMPLEX", "timestamp": "TIMESTAMP", "non_partitioned": "NON_PARTITION"}
WRITABLE_TYPES = frozenset({"", *_TYPES.values()})
"""Values of `hoodie.table.keygenerator.type` whose keys and paths can be made here; none stands for the inferred one."""

TimeInput = Literal["EPOCHMILLISECONDS", "EPOCHMICROSECONDS", "UNIX_TIMESTAMP", "SCALAR", "DATE_STRING"]
TIME_INPUTS: tuple[TimeInput, ...] = get_args(TimeInput)
TimeUnit = Literal["DAYS", "HOURS", "MINUTES", "SECONDS", "MILLISECONDS", "MICROSECONDS"]

_PREFIX = "hoodie.keygen.timebased."
_DIRECTIVES = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_TOKENS = re.compile(r"(?P<letters>([A-Za-z])\2*)|'(?P<quoted>[^']*)'|(?P<other>[^A-Za-z'])")
PATTERN_LETTERS = "yyyy, MM, dd, HH, mm and ss, with separators between them; other text in single quotes"


class TimePartition(BaseModel):
    """How a column becomes the partition path of a table with the time-based key generator.

    Attributes:
        input: what the column holds: a time since 1970 in milli-, microseconds, seconds or `unit`, or text in `input_format`.
        output: Java date pattern of the path; a slash in it makes another level, unless paths are URL-encoded.
        unit: for `SCALAR`.
        input_format: Java date pattern, for `DATE_STRING`.
        input_timezone: zone of texts.
        output_timezone: zone of the path.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: TimeInput = "EPOCHMILLISECONDS"
    output: str = "yyyy-MM-dd"
    unit: TimeUnit = "DAYS"
    input_format: str = ""
    input_timezone: str = "UTC"
    output_timezone: str = "UTC"

    @property
    def output_directives(self) -> str:
        """`output` as `strftime` takes it.

        Raises:
            Unsupported: a pattern that cannot be written.
        """
        return directives_of(self.output)

    @property
    def input_directives(self) -> str:
        """`input_format` as `strptime` takes it.

        Raises:
            Unsupported: a pattern that cannot be read.
        """
        return directives_of(self.input_format)

    def properties(self) -> dict[str, str]:
        """Return the properties that Apache Hudi keeps, with every option of its key generator.

        Source: docs/format §6.6.
        """
        kept = {"timestamp.type": self.input, "output.dateformat": self.output}
        if self.input == "SCALAR":
            kept["timestamp.scalar.time.unit"] = self.unit
        if self.input == "DATE_STRING":
            kept["input.dateformat"] = self.input_format
            kept["input.timezone"] = self.input_timezone
        return {_PREFIX + key: value for key, value in {**kept, "output.timezone": self.output_timezone}.items()}


def time_partition_of(raw: Mapping[str, str], table: str) -> TimePartition:
    """Return the settings of the time-based key generator in a table's properties.

    Raises:
        Unsupported: settings are missing or not supported here.
    """

    def said(key: str, default: str = "") -> str:
        return raw.get(_PREFIX + key, "").strip() or default

    # Apache Hudi's own default where no zone is set.
    zone = said("timezone", "UTC")
    kind, unit = said("timestamp.type"), said("timestamp.scalar.time.unit", "SECONDS").upper()
    _choice(kind, TIME_INPUTS, "timestamp.type", table)
    _choice(unit, get_args(TimeUnit), "timestamp.scalar.time.unit", table)
    found = TimePartition(
        input=kind,
        output=said("output.dateformat"),
        unit=unit,
        input_format=said("input.dateformat"),
        input_timezone=said("input.timezone", zone),
        output_timezone=said("output.timezone", zone),
    )
    check_time_partition(found)
    return found


def check_time_partition(time: TimePartition) -> None:
    """Refuse settings that the kernels cannot print or read.

    Raises:
        Unsupported: a pattern or a zone that is not supported here.
        InvalidRequest: an empty pattern.
    """
    for name, pattern in (("output", time.output), ("input_format", time.input_format)):
        if name == "input_format" and time.input != "DATE_STRING":
            continue
        if not pattern:
            raise InvalidRequest(
                f"the time-based key generator needs a date pattern for its {name}",
                expected="a Java date pattern, for example yyyy-MM-dd",
                found="none",
                next_step="name one",
                field=name,
            )
        directives_of(pattern)
    if any(part in {"", ".", ".."} for part in time.output.split("/")):
        raise InvalidRequest(
            f"{time.output!r} has an empty level",
            expected="a pattern whose slashes stand between letters",
            found=time.output,
            next_step="use a pattern such as yyyy/MM/dd",
        )
    for zone in (time.input_timezone, time.output_timezone):
        if zone.upper() not in {"UTC", "GMT"}:
            raise Unsupported(
                f"partition paths cannot be made in the time zone {zone}",
                expected="UTC or GMT",
                found=zone,
                next_step="write the table with Apache Hudi, or make one whose paths are in UTC",
            )


def directives_of(pattern: str) -> str:
    """Translate a Java date pattern for `strftime` and `strptime`.

    >>> directives_of("yyyy/MM/dd'T'HH")
    '%Y/%m/%dT%H'

    Raises:
        Unsupported: letters that are not supported here.
    """
    text, at = "", 0
    for token in _TOKENS.finditer(pattern):
        letters, quoted = token["letters"], token["quoted"]
        if token.start() != at or (letters is not None and letters not in _DIRECTIVES):
            break
        at = token.end()
        plain = "'" if quoted == "" else quoted if quoted is not None else token["other"]
        text += _DIRECTIVES[letters] if letters is not None else plain.replace("%", "%%")
    if at != len(pattern):
        raise Unsupported(
            f"the date pattern {pattern!r} cannot be followed from {pattern[at:]!r} on",
            expected=PATTERN_LETTERS,
            found=pattern,
            next_step="choose a pattern of these letters, or write the table with Apache Hudi",
        )
    return text


def key_generator_type(choice: str, record_key: tuple[str, ...], partition_by: tuple[str, ...]) -> str:
    """Return the value of `hoodie.table.keygenerator.type` for a choice.

    `auto` infers it as Apache Hudi does (docs/format §6.5).

    Raises:
        InvalidRequest: no such choice, or one that does not fit the numbers of key and partition fields.
    """
    if choice not in KEY_GENERATORS:
        raise InvalidRequest(
            f"unknown key generator {choice!r}",
            expected=" or ".join(KEY_GENERATORS),
            found=choice,
            next_step="choose one of them; auto fits almost every table",
        )
    if choice == "auto":
        if not partition_by:
            return "NON_PARTITION"
        return "SIMPLE" if len(record_key) == len(partition_by) == 1 else "COMPLEX"
    problem = ""
    if choice in {"simple", "timestamp"} and (len(record_key), len(partition_by)) != (1, 1):
        problem = "one key and one partition column"
    elif choice == "non_partitioned" and partition_by:
        problem = "no partition column"
    if problem:
        raise InvalidRequest(
            f"the {choice} key generator needs {problem}",
            expected=problem,
            found=f"keys {', '.join(record_key) or 'none'}, partitions {', '.join(partition_by) or 'none'}",
            next_step="use auto, or change the columns",
        )
    return _TYPES[choice]


def _choice(value: str, choices: tuple[str, ...], key: str, table: str) -> None:
    if value not in choices:
        raise Unsupported(
            f"{_PREFIX}{key} is {value or 'missing'}, which cannot be written",
            table=table,
            expected=" or ".join(choices),
            found=value or "nothing",
            next_step="write the table with Apache Hudi",
        )
