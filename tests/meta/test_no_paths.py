"""No file of the repository knows the machine it was written on, or the host that packages come from.

Goal: a clone works anywhere, behind any mirror. Method: search every file that git would commit. The searched words
are put together here, so that this file does not find itself.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# A folder name counts only at the start of a path: elsewhere it is part of a relative path.
MACHINE_FOLDERS = ["work", "root", "farm", "tmp/w"]
PACKAGE_HOSTS = [
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("maven", "org"),
    ("maven", "apache", "org"),
    ("npmjs", "org"),
    ("npmjs", "com"),
    ("crates", "io"),
    ("golang", "org"),
    ("deb", "debian", "org"),
    ("security", "debian", "org"),
]
PATTERN = re.compile(
    "|".join(
        [rf"(?<![\w.$}}~-])/{folder}/" for folder in MACHINE_FOLDERS]
        + [r"(?<![\w-])" + re.escape(".".join(host)) + r"\b" for host in PACKAGE_HOSTS]
    )
)


def committed_files() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def test_no_file_names_a_machine_or_a_package_host():
    files = committed_files()
    assert ROOT / "pyproject.toml" in files
    offenders = [
        f"{file.relative_to(ROOT)}:{number} {line.strip()[:100]}"
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if PATTERN.search(line)
    ]
    assert offenders == []


def test_the_pattern_finds_what_it_should():
    """The rule is worth nothing if its pattern matches nothing."""
    slash = "/"
    for text in (f"open('{slash}work/main')", f"cd {slash}root/x", "index = https://" + ".".join(("pypi", "org"))):
        assert PATTERN.search(text), text
    relative = [
        f"{before}{slash}{folder}{slash}x" for before in (".", "$SPARK_HOME", "data") for folder in MACHINE_FOLDERS
    ]
    for text in ("from PyPI", "http://www.apache.org/licenses/", *relative):
        assert not PATTERN.search(text), text
