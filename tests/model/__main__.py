"""Print what the models find: for each scenario the states reached, then the same without each guard.

python -m tests.model [-v] [--scenario NAME] [--without GUARD]
"""

from __future__ import annotations

import argparse
import sys

from tests.bounds import SOAK
from tests.model.scenarios import SCENARIOS


def main(arguments: list[str]) -> int:
    """Print the table; returns 1 when a protocol with all guards violates a property."""
    parser = argparse.ArgumentParser(prog="python -m tests.model")
    parser.add_argument("-v", "--verbose", action="store_true", help="print a shortest path to each violation")
    parser.add_argument("--scenario", help="only this one")
    parser.add_argument("--without", help="only without this guard")
    chosen = parser.parse_args(arguments)
    print(f"{'scenario':28} {'without':32} {'states':>9}  violations")
    failed = False
    for scenario in SCENARIOS:
        if chosen.scenario not in {None, scenario.name}:
            continue
        for guard in [chosen.without] if chosen.without else ["", *scenario.guards]:
            report = scenario.explore(guard, SOAK)
            violations = ", ".join(report.violations) or "none"
            print(f"{scenario.name:28} {guard or '-':32} {report.states:9}  {violations}", flush=True)
            failed |= bool(report.violations) and not guard
            for violation, path in report.violations.items() if chosen.verbose else ():
                print(f"    {violation}:", *path, sep="\n        ")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
