"""Run the snippets of one page of the docs as printed: `python -m tests.docs.page docs/quickstart.md`.

The fences of a page run in their order, in one folder and one Python namespace. Each page has a process of its own: Spark
resolves a relative path in the folder in which its Java was started.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from hudi_ops.config.tables_file import load_tables

ELSEWHERE = {
    "install": "tests/install/test_install.py, each line in an environment of its own",
    "airflow": "tests/airflow/test_installed.py",
    "containers": "nothing: the project is developed without a Docker engine",
    "server": "tests/services/server, which start it",
    "repository": "commands of a clone: bin/demo runs in tests/e2e, bin/test is what runs this",
}
LANGUAGES = {"python", "bash", "yaml"}
_FENCE = re.compile(r"^( *)```([a-z]+)(?: +([a-z]+))?\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Fence:
    """A snippet: where it stands, its language, what it needs besides, and its text."""

    page: Path
    line: int
    language: str
    needs: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def fences(page: Path) -> list[Fence]:
    text = page.read_text(encoding="utf-8")
    return [
        Fence(page, text[: found.start()].count("\n") + 1, found[2], found[3] or "", found[4])
        for found in _FENCE.finditer(text)
    ]


def run(fence: Fence, names: dict[str, object]) -> None:
    if fence.language == "python":
        exec(compile(fence.text, str(fence), "exec"), names)
    elif fence.language == "bash":
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", fence.text], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"{fence}: {done.stdout}{done.stderr}"
    else:
        assert fence.language == "yaml"
        declared = Path("declared.yaml")
        declared.write_text(yaml.safe_dump({"tables": {}} | yaml.safe_load(fence.text)))
        load_tables(declared)


def run_page(page: Path) -> None:
    """Run all fences of a page in the working folder."""
    names: dict[str, object] = {"__name__": "__main__"}
    for fence in fences(page):
        assert fence.language in LANGUAGES, fence
        if not fence.needs:
            run(fence, names)
        else:
            assert fence.needs in ELSEWHERE, fence
            if fence.language == "bash":
                subprocess.run(["bash", "-n", "-c", fence.text], check=True)


if __name__ == "__main__":
    run_page(Path(sys.argv[1]))
