"""The environment is the one that the lock files describe, and the lock files are fit to be shared.

Goal: what runs here runs elsewhere. Method: compare lock files, pyproject.toml and the installed packages.
"""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pyspark
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ["requirements.lock", "requirements-image.lock", "requirements-interop.lock"]
SHA256 = re.compile(r"--hash=sha256:[0-9a-f]{64}")

every_lock = pytest.mark.parametrize("lock", LOCKS)


def locked(lock: str) -> list[tuple[Requirement, list[str]]]:
    """Each requirement of a lock file with its hashes."""
    text = (ROOT / lock).read_text(encoding="utf-8")
    entries = re.split(r"\n(?=\S)", text.replace("\\\n", "\n").strip())
    return [(Requirement(entry.split("\n")[0]), SHA256.findall(entry)) for entry in entries if entry[0] != "#"]


def versions_here(lock: str) -> dict[str, str]:
    return {
        canonicalize_name(requirement.name): str(requirement.specifier).removeprefix("==")
        for requirement, _ in locked(lock)
        if requirement.marker is None or requirement.marker.evaluate()
    }


def test_pyspark_is_whole():
    """pyspark-client unpacks the same files over the same folder: those of another version would break pyspark unseen."""
    assert pyspark.__version__ == importlib.metadata.version("pyspark") == importlib.metadata.version("pyspark-client")
    assert list((Path(pyspark.__file__).parent / "jars").glob("spark-core_*.jar"))


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-image.lock"])
def test_pyspark_and_its_client_are_of_one_version(lock: str):
    versions = versions_here(lock)
    assert versions["pyspark"] == versions["pyspark-client"]


def test_the_image_has_the_fixed_packages_and_none_of_the_tests():
    image, here = versions_here("requirements-image.lock"), versions_here("requirements.lock")
    fixed = {"apache-airflow", "apache-airflow-providers-apache-spark", "pyspark", "pyarrow", "sqlalchemy", "kazoo"}
    assert fixed <= image.keys()
    assert {name: version for name, version in image.items() if here[name] != version} == {}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tests_only = {canonicalize_name(Requirement(line).name) for line in project["dependency-groups"]["dev"]}
    assert tests_only & image.keys() == set()


@every_lock
def test_lock_names_no_host(lock: str):
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert "://" not in text
    assert [line for line in text.splitlines() if line.startswith("-") or " @ " in line] == []


@every_lock
def test_every_locked_package_is_exact_and_has_hashes(lock: str):
    entries = locked(lock)
    assert len(entries) > 20
    assert [str(requirement) for requirement, hashes in entries if not hashes] == []
    assert [
        str(requirement) for requirement, _ in entries if not re.fullmatch(r"==[^*,]+", str(requirement.specifier))
    ] == []


def test_lock_fulfils_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [
        *project["project"]["dependencies"],
        *(line for extra in project["project"]["optional-dependencies"].values() for line in extra),
        *(line for group in project["dependency-groups"].values() for line in group),
    ]
    here = versions_here("requirements.lock")
    missing = [
        line
        for line in wanted
        if not Requirement(line).specifier.contains(here.get(canonicalize_name(Requirement(line).name), "0"))
    ]
    assert missing == []


def test_interop_lock_fulfils_its_input():
    lines = (ROOT / "requirements-interop.in").read_text(encoding="utf-8").splitlines()
    wanted = [Requirement(line.split("#")[0].strip()) for line in lines if line.split("#")[0].strip()]
    here = versions_here("requirements-interop.lock")
    missing = [
        str(requirement)
        for requirement in wanted
        if (requirement.marker is None or requirement.marker.evaluate())
        and not requirement.specifier.contains(here.get(canonicalize_name(requirement.name), "0"))
    ]
    assert missing == []


def test_installed_packages_are_the_locked_ones():
    different = {
        name: (version, found)
        for name, version in versions_here("requirements.lock").items()
        if (found := _installed(name)) != version
    }
    assert different == {}


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
