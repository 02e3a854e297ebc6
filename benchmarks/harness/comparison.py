"""What `compare.py` of each comparison does alike: options, the engines' processes, runs in turn, one JSON line each."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from benchmarks.harness import machine
from benchmarks.harness.goals import Run
from benchmarks.harness.places import BUNDLE, INTEROP_PYTHON, RESULTS
from benchmarks.harness.runner import Runner


class Named(Protocol):
    """A case or a variant."""

    @property
    def name(self) -> str: ...


C = TypeVar("C", bound=Named)
V = TypeVar("V", bound=Named)


@dataclass(frozen=True)
class Process:
    """How an engine's process is started: module and arguments; whether it needs the interpreter with Spark."""

    command: tuple[str, ...]
    on_spark: bool = False


def options_parser(
    name: str, about: str | None, variants: Sequence[Named], cases: Sequence[Named]
) -> argparse.ArgumentParser:
    """Options that every comparison has; `chosen` is to be called on what they parse to."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=about)
    every_variant, every_case = [one.name for one in variants], [one.name for one in cases]
    parser.add_argument("--variants", type=_names, default=every_variant, help=f"of {','.join(every_variant)}")
    parser.add_argument("--cases", type=_names, default=every_case, help=f"of {','.join(every_case)}")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the large table")
    parser.add_argument("--batch-rows", type=int, default=100_000, help="rows of a batch")
    parser.add_argument("--runs", type=int, default=5, help="counted rounds")
    parser.add_argument("--warmup", type=int, default=1, help="rounds that are run and dropped")
    parser.add_argument("--driver-memory", default="6g", help="heap of each JVM")
    parser.add_argument("--python", type=Path, help="interpreter of the engines on Spark (default: that of .interop)")
    parser.add_argument(
        "--work", type=Path, default=RESULTS / f"work-{name}", help="scratch folder, emptied at start and end"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help=f"where {name}.jsonl goes")
    parser.add_argument("--report", type=Path, help=f"where the report goes (default: {name.upper()}.md in --results)")
    parser.add_argument("--quick", action="store_true", help="a smoke run: 20,000 rows, one counted round")
    parser.set_defaults(name=name, parser=parser)
    return parser


def chosen(options: argparse.Namespace, variants: Sequence[V], cases: Sequence[C]) -> argparse.Namespace:
    """The options with variants and cases in place of their names, and defaults filled in."""
    for given, known in ((options.variants, variants), (options.cases, cases)):
        names = [one.name for one in known]
        if unknown := set(given) - set(names):
            options.parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    options.variants = [one for one in variants if one.name in options.variants]
    options.cases = [one for one in cases if one.name in options.cases]
    options.report = options.report or options.results / f"{options.name.upper()}.md"
    options.work = options.work.resolve()
    options.python = options.python or INTEROP_PYTHON
    if options.quick:
        options.rows, options.batch_rows, options.runs, options.warmup = 20_000, 2_000, 1, 0
        options.driver_memory = "1g"
    return options


def is_ready(options: argparse.Namespace, processes: Mapping[str, Process], engines: Iterable[str]) -> bool:
    """Whether what the engines need is there; what is missing is printed."""
    engines = list(engines)
    needed = [options.python] if any(processes[engine].on_spark for engine in engines) else []
    needed += [BUNDLE] if "hudi" in engines else []
    missing = [path for path in needed if not path.exists()]
    for path in missing:
        print(f"{path} is missing.\n  Next: run bin/bootstrap --interop", file=sys.stderr)
    return not missing


def started(
    stack: ExitStack,
    options: argparse.Namespace,
    processes: Mapping[str, Process],
    engines: Iterable[str],
    schema_of: Path,
) -> dict[str, Runner]:
    """A process of each engine, which ends with the stack."""
    engines = list(engines)
    extra = ["--driver-memory", options.driver_memory, "--schema-of", str(schema_of)]
    if "hudi" in engines:
        extra += ["--jar", str(BUNDLE)]  # on Spark's class path of both
    runners = {}
    for engine in engines:
        say(f"starting the process of {engine}")
        process = processes[engine]
        python = options.python if process.on_spark else Path(sys.executable)
        runners[engine] = stack.enter_context(Runner(engine, process.command, python, options.work, extra))
    return runners


def in_turn(options: argparse.Namespace, variants: Sequence[V]) -> Iterator[tuple[int, bool, V]]:
    """Rounds of all variants (A B C A B C ...): number, whether it counts, and the variant."""
    for number in range(options.warmup + options.runs):
        for variant in variants:
            yield number, number >= options.warmup, variant


def kept(options: argparse.Namespace, runs: Iterable[Run]) -> list[Run]:
    """All runs, each printed and written as it comes."""
    options.results.mkdir(parents=True, exist_ok=True)
    found = []
    with open(options.results / f"{options.name}.jsonl", "w", encoding="utf-8") as lines:
        for run in runs:
            line = json.dumps(run)
            print(line, flush=True)
            print(line, file=lines, flush=True)
            found.append(run)
    return found


def facts(options: argparse.Namespace, runners: Mapping[str, Runner]) -> dict[str, str]:
    """What the figures were measured on."""
    versions = {key: value for one in runners.values() for key, value in one.versions.items()}
    return {**machine.machine(), **versions, "rows": f"{options.rows:,}", "batch": f"{options.batch_rows:,}"}


def publish(options: argparse.Namespace, text: str, runs: Sequence[dict[str, Any]]) -> int:
    """Print and keep the report, clear up.

    Returns:
        The exit code: 0; 1 when a table held other rows than it must.
    """
    options.report.write_text(text, encoding="utf-8")
    print("\n" + text)
    say(f"written to {options.report} and {options.results / (options.name + '.jsonl')}")
    shutil.rmtree(options.work, ignore_errors=True)  # a JVM on its way out may be deleting there, too
    return 0 if all(run["correct"] for run in runs) else 1


def say(text: str) -> None:
    """Progress, on stderr."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def _names(text: str) -> list[str]:
    return text.split(",")
