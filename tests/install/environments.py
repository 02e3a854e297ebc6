"""Make clean environments from the built wheel, measure them, and use them as a user would.

Nothing of the checkout is on the path of their programs: they run in a folder of their own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"
UV = ROOT / ".tools" / "venv" / "bin" / "uv"
STEP_S = 1800
MB = 1_000_000


@dataclass(frozen=True)
class Environment:
    """One way to install: an installer, the extras, and what is installed."""

    name: str
    installer: str
    extras: str = ""
    from_source: bool = False

    @property
    def has_spark(self) -> bool:
        return "spark" in self.extras or self.extras == "all"

    @property
    def has_airflow(self) -> bool:
        return "airflow" in self.extras or self.extras == "all"

    @property
    def has_page(self) -> bool:
        return "page" in self.extras or self.extras == "all"


ENVIRONMENTS = (
    Environment("core-pip", "pip"),
    Environment("core-uv", "uv"),
    Environment("sdist-pip", "pip", from_source=True),
    Environment("spark-pip", "pip", "spark"),
    Environment("airflow-pip", "pip", "airflow"),
    Environment("airflow-page-uv", "uv", "airflow,page"),
    Environment("all-pip", "pip", "all"),
    Environment("spark-airflow-pip", "pip", "spark,airflow"),
    Environment("spark-airflow-uv", "uv", "spark,airflow"),
)


@dataclass
class Installed:
    """An environment on disk, and what was measured of it."""

    environment: Environment
    folder: Path
    install_s: float = 0.0
    size_mb: float = 0.0
    bytecode_mb: float = 0.0
    packages: int = 0
    import_s: float = 0.0
    checks: list[str] = field(default_factory=list)

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    def line(self) -> str:
        """Return its row of the printed table."""
        numbers = (
            f"{self.size_mb:7.0f} {self.bytecode_mb:7.0f} {self.packages:9} {self.import_s:9.3f} {self.install_s:8.0f}"
        )
        return f"{self.environment.name:18} {numbers}  {', '.join(self.checks)}"


HEADER = f"{'environment':18} {'MB':>7} {'of .pyc':>7} {'packages':>9} {'import s':>9} {'inst. s':>8}  checks"


def run(command: list[str | Path], folder: Path, environment: dict[str, str] | None = None) -> str:
    """Run a program outside of the checkout; its output, and its end as an error where it fails.

    The environment of this process is not inherited: a user's has no PYTHONPATH, SPARK_HOME or AIRFLOW_HOME of ours.
    """
    kept = (
        "HOME",
        "TMPDIR",
        "LANG",
        "UV_CACHE_DIR",
        "PIP_INDEX_URL",
        "UV_INDEX_URL",
        "UV_DEFAULT_INDEX",
        "SSL_CERT_FILE",
    )
    kept += (
        "PIP_CERT",
        "REQUESTS_CA_BUNDLE",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "NO_PROXY",
        "https_proxy",
        "http_proxy",
        "no_proxy",
    )
    kept += ("PIP_TRUSTED_HOST", "UV_INSECURE_HOST", "PIP_CONFIG_FILE", "UV_CONFIG_FILE")
    given = {name: os.environ[name] for name in kept if name in os.environ}
    path = os.pathsep.join([str(folder / "venv" / "bin"), os.environ["PATH"]])
    result = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**given, "PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=STEP_S,
    )
    if result.returncode != 0:
        said = (result.stdout + result.stderr)[-6000:]
        raise AssertionError(f"{' '.join(map(str, command))} ended with {result.returncode}:\n{said}")
    return result.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it; return wheel and sdist."""
    source = folder / "source"
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout.split("\0")
    for name in filter(None, names):
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    run([UV, "build", "--quiet", "--python", sys.executable, "--out-dir", folder / "dist", source], folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    return wheel, sdist


def install(environment: Environment, folder: Path, packages: tuple[Path, Path], python: str) -> Installed:
    """Make the environment and measure it."""
    folder.mkdir(parents=True)
    made = Installed(environment, folder)
    wheel, sdist = packages
    wanted = str(sdist if environment.from_source else wheel)
    wanted += f"[{environment.extras}]" if environment.extras else ""
    started = time.monotonic()
    if environment.installer == "uv":
        run([UV, "venv", "--quiet", "--python", python, folder / "venv"], folder)
        run([UV, "pip", "install", "--quiet", "--python", made.python, wanted], folder)
        installer: set[str] = set()
    else:
        run([python, "-m", "venv", folder / "venv"], folder)
        run([made.python, "-m", "pip", "install", "--quiet", wanted], folder)
        installer = {"pip", "setuptools", "pkg_resources", "_distutils_hack"}
    made.install_s = time.monotonic() - started
    _measure(made, installer)
    return made


def _measure(made: Installed, installer: set[str]) -> None:
    """Sum the bytes of the files in site-packages, without pip itself, which every venv has."""
    (packages,) = (made.folder / "venv" / "lib").glob("python*/site-packages")
    entries = [entry for entry in packages.iterdir() if entry.name.split("-")[0] not in installer]
    files = [file for entry in entries for file in ([entry] if entry.is_file() else entry.rglob("*")) if file.is_file()]
    made.size_mb = sum(file.stat().st_size for file in files) / MB
    made.bytecode_mb = sum(file.stat().st_size for file in files if file.suffix == ".pyc") / MB
    made.packages = sum(entry.suffix == ".dist-info" for entry in entries)
    timed = "import time; start = time.perf_counter(); import hudi_ops; print(time.perf_counter() - start)"
    made.import_s = min(float(run([made.python, "-c", timed], made.folder)) for _ in range(5))


def use_core(made: Installed) -> None:
    """Create, ingest, read, compact and verify a merge-on-read table, without Java on the path."""
    path = str(made.folder / "venv" / "bin")
    said = json.loads(run([made.python, PROGRAMS / "core.py"], made.folder, {"PATH": path}).splitlines()[-1])
    assert said == {"rows": 3, "fare": 9.5, "log_files": [2, 0], "java": None, "errors": 0}, said
    version = run([made.folder / "venv" / "bin" / "hudi-ops", "--version"], made.folder, {"PATH": path})
    assert version.startswith("hudi-ops "), version
    made.checks.append("core")


def use_spark(made: Installed) -> None:
    """Run a Spark job over the table that the core made, and an ingest on Spark's engine."""
    said = json.loads(run([made.python, PROGRAMS / "spark.py"], made.folder).splitlines()[-1])
    assert said == {"sum": 4950, "frame": 3, "ingested": 4, "jars": True}, said
    made.checks.append("spark job")


def use_airflow(made: Installed) -> None:
    """List the DAGs by Airflow; where Spark is installed too, run the DAG of ingestion."""
    programs = made.folder / "venv" / "bin"
    (made.folder / "landing").mkdir()
    run([made.python, PROGRAMS / "rides.py"], made.folder)
    (made.folder / "tables.yaml").write_text(
        "tables:\n  rides: {path: tables/rides, record_key: [id], source: landing}\n", encoding="utf-8"
    )
    run([programs / "hudi-ops", "create", "rides", "--like", "landing/a.parquet"], made.folder)
    dags_folder = json.loads(run([programs / "hudi-ops", "paths", "--json"], made.folder))["dags"]
    assert Path(dags_folder).is_relative_to(made.folder / "venv"), dags_folder
    environment = {
        "AIRFLOW__CORE__DAGS_FOLDER": dags_folder,
        "HUDI_OPS_TABLES": str(made.folder / "tables.yaml"),
        "AIRFLOW_HOME": str(made.folder / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
        "SPARK_LOCAL_IP": "127.0.0.1",
        "HUDI_OPS_RETRIES": "0",
    }
    airflow = programs / "airflow"
    run([airflow, "db", "migrate"], made.folder, environment)
    errors = run([airflow, "dags", "list-import-errors", "--local", "-o", "json"], made.folder, environment)
    assert _json_in(errors) in ([], None), errors
    dags = _json_in(run([airflow, "dags", "list", "--local", "-o", "json"], made.folder, environment))
    expected = {
        *("archive", "cancel", "clean", "clustering", "ingestion"),
        *("compaction", "health", "indexing", "recover", "resizing", "verify"),
    }
    assert expected <= {dag["dag_id"] for dag in dags or []}, dags
    providers = _json_in(run([airflow, "providers", "list", "-o", "json"], made.folder, environment))
    assert "hudi-ops" in {provider["package_name"] for provider in providers or []}, providers
    made.checks.append(f"{len(dags or [])} DAGs")
    if made.environment.has_page:
        use_page(made, environment)
    if made.environment.has_spark:
        test = [airflow, "dags", "test", "ingestion", "2026-01-01", "--conf", '{"table": "rides"}']
        run(test, made.folder, environment)
        count = "from hudi_ops import Table; print(Table.open('tables/rides').read().num_rows)"
        assert run([made.python, "-c", count], made.folder).split() == ["2"]
        made.checks.append("DAG run")


def use_page(made: Installed, environment: dict[str, str]) -> None:
    """Fill a registry, and open the page in Airflow's API application; both come with the wheel."""
    programs = made.folder / "venv" / "bin"
    given = {**environment, "HUDI_OPS_REGISTRY": f"sqlite:///{made.folder / 'registry.db'}"}
    run([programs / "hudi-ops", "registry", "migrate"], made.folder, given)
    run([programs / "hudi-ops", "registry", "refresh", "rides"], made.folder, given)
    said = json.loads(run([made.python, PROGRAMS / "page.py"], made.folder, given).splitlines()[-1])
    assert said["errors"] == [], said
    assert said["anonymous"] == 401, said
    assert said["pages"] == {"": [200, True], "tables/rides": [200, True]}, said
    assert len(said["assets"]) >= 3, said
    assert set(said["assets"].values()) == {200}, said
    made.checks.append("page")


def _json_in(output: str) -> list[dict[str, str]] | None:
    """Return the list that a command printed after its log lines, or None."""
    for number, line in enumerate(output.splitlines()):
        if line.startswith("["):
            try:
                found = json.loads("\n".join(output.splitlines()[number:]))
            except ValueError:
                continue
            return list(found)
    return None
