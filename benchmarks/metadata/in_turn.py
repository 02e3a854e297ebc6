"""Calls of one process measured in turn: wall and CPU seconds of all its threads, and the storage calls of one of them."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import machine
from benchmarks.harness.goals import Run
from benchmarks.harness.tables import spread

Call = Callable[[], Any]


def measured(case: str, variants: Mapping[str, Call], rounds: int) -> list[Run]:
    """Run the variants in turn (A B A B ...); a first round is dropped. Each run is printed as a line of JSON."""
    runs = []
    for number in range(rounds + 1):
        for name, call in variants.items():
            gc.collect()
            load, wall_s, cpu_s = machine.load(), time.perf_counter(), time.process_time()
            call()
            took = {"wall_s": time.perf_counter() - wall_s, "cpu_s": time.process_time() - cpu_s}
            run: Run = {"case": case, "variant": name, "round": number, **took, "load": load}
            if number:
                print(json.dumps(run), flush=True)
                runs.append(run)
    return runs


def table_of(runs: Sequence[Run], told: Mapping[tuple[str, str], Sequence[str]], titles: Sequence[str], to: str) -> str:
    """Markdown: a line a case and variant, with its ratios to the variant `to`, paired by round.

    Args:
        runs: as `measured` gives them.
        told: further cells by case and variant.
        titles: of those cells.
        to: the variant that others are divided by.
    """
    head = ["case", "variant", "wall ms", "CPU ms", f"wall ÷ {to}", f"CPU ÷ {to}", *titles, "load"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for case, variant in dict.fromkeys((run["case"], run["variant"]) for run in runs):
        mine = _by_round(runs, case, variant)
        base = _by_round(runs, case, to)
        cells = [spread([run[name] * 1e3 for run in mine.values()], 1) for name in ("wall_s", "cpu_s")]
        for name in ("wall_s", "cpu_s"):
            quotients = [run[name] / max(base[number][name], 1e-6) for number, run in mine.items()]
            cells.append("" if variant == to else spread(quotients))
        loads = [run["load"] for run in mine.values()]
        cells += [*told[case, variant], f"{min(loads):.1f}-{max(loads):.1f}"]
        lines.append(f"| `{case}` | {variant} | {' | '.join(cells)} |")
    return "\n".join(lines)


def publish(name: str, text: str, runs: Sequence[Run], results: Path) -> None:
    """Print and keep the report, and keep the runs."""
    results.mkdir(parents=True, exist_ok=True)
    (results / f"metadata-{name}.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs), encoding="utf-8")
    (results / f"METADATA-{name.upper()}.md").write_text(text, encoding="utf-8")
    print("\n" + text)
    print(f"bench: written to {results}", file=sys.stderr)


def _by_round(runs: Sequence[Run], case: str, variant: str) -> dict[int, Run]:
    return {run["round"]: run for run in runs if (run["case"], run["variant"]) == (case, variant)}
