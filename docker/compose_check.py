"""Start every service of docker-compose.yaml without containers, wait for its health check, and ingest flights.

Commands, environment and health checks are those of the file and of the Dockerfile. Host names become 127.0.0.1, ports become free
ones, and the folders of the image become a temporary folder. Two images are not ours: PostgreSQL is the one of this machine, and
ZooKeeper comes from the jars of pyspark.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import yaml

ROOT = Path(__file__).resolve().parents[1]
IMAGE = "/opt/hudi-ops"
IMAGE_FOLDERS = ("airflow", "data", "work")
LINKED = ("dags", "plugins", "spark_apps", "examples", "hudi_ops", ".venv")
HOSTS = re.compile(r"(?<![\w-])(airflow-apiserver|spark-master|zookeeper|postgres)(?=:\d|[/\"]|$)")
PORTS = (2181, 5432, 7077, 8080, 8081, 8082, 8793, 8794, 8974, 26760)
VARIABLE = re.compile(r"\$\{([A-Z_]+):\?[^}]*\}")
INGEST_S = 600


class CheckFailure(Exception):
    """A service did not start, or the ingestion failed."""


class Mapping:
    """What takes the place of hosts, ports, folders and secrets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = _free_ports()
        self.secrets: dict[str, str] = {}
        self._port = re.compile(rf"(?<![\w.])({'|'.join(map(str, PORTS))})\b")

    def text(self, value: Any) -> str:
        """Return a value of the file as it reads on this machine."""
        text = VARIABLE.sub(lambda found: self._secret(found[1]), str(value))
        text = HOSTS.sub("127.0.0.1", text)
        text = self._port.sub(lambda found: str(self.ports[int(found[1])]), text)
        for name in IMAGE_FOLDERS:
            text = re.sub(rf"{IMAGE}/{name}\b", str(self.folder / name), text)
        return text.replace(IMAGE, str(self.folder / "app"))

    def _secret(self, name: str) -> str:
        made = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
        return self.secrets.setdefault(name, made if "FERNET" in name else made.rstrip("="))


class Service:
    """One service of the file: its process, its log, and its health check."""

    def __init__(self, name: str, said: dict[str, Any], mapping: Mapping) -> None:
        self.name, self._said, self._mapping = name, said, mapping
        self.runs_once = said.get("restart") == "no"
        self.waits_for = list(said.get("depends_on", {}))
        self.log = mapping.folder / "logs" / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the image and of the service, with what one machine needs besides."""
        ports = self._mapping.ports
        given = {name: os.environ[name] for name in ("LANG", "JAVA_HOME", "TMPDIR") if name in os.environ}
        said = {**_image_environment(), **self._said.get("environment", {})}
        own = {name: self._mapping.text(value) for name, value in said.items()}
        path = os.pathsep.join([*own.get("PATH", "").split(os.pathsep)[:1], *_postgres_path(), os.environ["PATH"]])
        return {
            **given,
            "HOME": str(self._mapping.folder / "home"),
            **own,
            "PATH": path,
            # In containers each service has all ports to itself; here these three would collide.
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": str(ports[8974]),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(ports[8793]),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(ports[8794]),
            "PGHOST": "127.0.0.1",
            "PGPORT": str(ports[5432]),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    @property
    def command(self) -> list[str]:
        """Return the command of the file; for the two foreign images, that of their programs."""
        if self.name == "postgres":
            return _postgres_command(self._mapping, self.environment)
        if self.name == "zookeeper":
            return _zookeeper_command(self._mapping, self.environment)
        return [self._mapping.text(part) for part in self._said["command"]]

    def start(self) -> None:
        """Start the process, in a session of its own."""
        self.log.parent.mkdir(exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=self._mapping.folder / "app",
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def await_ready(self) -> None:
        """Wait until it has ended well, if it runs once, or until its health check passes.

        Raises:
            CheckFailure: it ended, or stayed unhealthy for as long as the file allows.
        """
        if self.process is None:
            raise CheckFailure(f"{self.name} was not started")
        check = self._said.get("healthcheck", {})
        seconds = {
            name: int(str(check.get(name, "0s")).rstrip("s")) for name in ("interval", "timeout", "start_period")
        }
        limit_s = seconds["start_period"] + seconds["interval"] * int(check.get("retries", 0)) if check else 900
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            code = self.process.poll()
            if self.runs_once and code == 0:
                return
            if code is not None:
                raise CheckFailure(f"{self.name} ended with {code}:\n{self.tail()}")
            if not self.runs_once and self._is_healthy(check["test"], seconds["timeout"]):
                return
            time.sleep(0.5)
        raise CheckFailure(f"{self.name} was not ready after {limit_s} s:\n{self.tail()}")

    def _is_healthy(self, test: list[str], timeout_s: int) -> bool:
        command = [self._mapping.text(part) for part in test[1:]]
        if command[0] == "zkServer.sh":
            # What that script runs to learn the status.
            command = [*_zookeeper_java(), "org.apache.zookeeper.client.FourLetterWordMain"]
            command += ["127.0.0.1", str(self._mapping.ports[2181]), "srvr"]
        try:
            said = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return said.returncode == 0 and ("FourLetterWordMain" not in " ".join(command) or "Mode:" in said.stdout)

    def stop(self) -> None:
        """End its process group: politely, then for good."""
        if self.process is None:
            return
        for sign, patience_s in ((signal.SIGTERM, 20), (signal.SIGKILL, 10)):
            try:
                os.killpg(self.process.pid, sign)
            except ProcessLookupError:
                break
            try:
                self.process.wait(patience_s)
            except subprocess.TimeoutExpired:
                continue

    def tail(self) -> str:
        """Return the end of its log."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])


def start_order(services: dict[str, Service]) -> Iterator[Service]:
    """Yield the services, each after those that it waits for.

    Raises:
        CheckFailure: services wait for each other.
    """
    done: set[str] = set()
    while len(done) < len(services):
        ready = [one for one in services.values() if one.name not in done and set(one.waits_for) <= done]
        if not ready:
            raise CheckFailure(f"services wait for each other: {sorted(services.keys() - done)}")
        yield ready[0]
        done.add(ready[0].name)


def check(folder: Path) -> None:
    """Start all, ingest, stop all.

    Raises:
        CheckFailure: a service did not start, or the ingestion failed.
    """
    mapping = Mapping(folder)
    for name in (*IMAGE_FOLDERS, "home", "app"):
        (folder / name).mkdir(parents=True)
    for name in LINKED:
        (folder / "app" / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "docker", folder / "app" / "docker", ignore=shutil.ignore_patterns("__pycache__"))
    tables = folder / "app" / "docker" / "tables.yaml"
    tables.write_text(mapping.text(tables.read_text(encoding="utf-8")), encoding="utf-8")
    file = yaml.safe_load((ROOT / "docker-compose.yaml").read_text(encoding="utf-8"))
    services = {name: Service(name, said, mapping) for name, said in file["services"].items()}
    started: list[Service] = []
    try:
        for service in start_order(services):
            begin = time.monotonic()
            service.start()
            started.append(service)
            service.await_ready()
            state = "ended well" if service.runs_once else "healthy"
            print(f"{service.name:24} {state:11} after {time.monotonic() - begin:5.1f} s", flush=True)
        ingest(services["airflow-scheduler"], folder)
        look(services["airflow-scheduler"], folder)
    finally:
        for service in reversed(started):
            service.stop()


def run_in(service: Service, folder: Path, *command: str) -> str:
    """Run a command with the environment of a service, and return its output.

    Raises:
        CheckFailure: it failed.
    """
    said = subprocess.run(
        command, cwd=folder / "app", env=service.environment, capture_output=True, text=True, timeout=300
    )
    if said.returncode:
        raise CheckFailure(f"{' '.join(command)} ended with {said.returncode}:\n{(said.stdout + said.stderr)[-3000:]}")
    return said.stdout


def look(scheduler: Service, folder: Path) -> None:
    """Look at flights, and find the ingestion in the registry, which has a database and a role of its own.

    Raises:
        CheckFailure: the registry has no table flights, or no run of it.
    """
    begin = time.monotonic()
    run_in(scheduler, folder, "hudi-ops", "registry", "refresh", "--all")
    said = json.loads(run_in(scheduler, folder, "hudi-ops", "registry", "list", "--json").splitlines()[-1])
    found = {one["name"]: one for one in said["tables"]}
    run = found.get("flights", {}).get("run") or {}
    if "postgresql" not in said["registry"] or (run.get("service"), run.get("state")) != ("ingestion", "succeeded"):
        raise CheckFailure(f"expected flights with a run of ingestion in PostgreSQL, found {said}")
    print(f"{'registry':24} {'has flights':11} after {time.monotonic() - begin:5.1f} s", flush=True)


def ingest(scheduler: Service, folder: Path) -> None:
    """Land the second wave of flights, and have Airflow's scheduler ingest it on the Spark cluster.

    Raises:
        CheckFailure: the DAG run failed, or did not end.
    """

    def run(*command: str) -> str:
        return run_in(scheduler, folder, *command)

    def runs() -> list[dict[str, str]]:
        said = run("airflow", "dags", "list-runs", "ingestion", "--output", "json")
        return list(json.loads(said[said.index("[{") :])) if "[{" in said else []

    count = "import os; from hudi_ops import Table; print(Table.open(os.environ['TABLE']).read(['flight']).num_rows)"
    scheduler._said["environment"]["TABLE"] = f"{IMAGE}/data/tables/flights"
    before = int(run("python", "-c", count))
    run("python", "docker/flights.py", "departed")
    begin = time.monotonic()
    run("airflow", "dags", "trigger", "ingestion", "--conf", json.dumps({"table": "flights", "engine": "spark"}))
    while True:
        states = {one["state"] for one in runs()}
        if states == {"success"}:
            break
        if "failed" in states or time.monotonic() - begin > INGEST_S:
            raise CheckFailure(f"the DAG run of ingestion: {states or 'none'}\n{scheduler.tail()}")
        time.sleep(2)
    instants = json.loads(run("hudi-ops", "timeline", "flights", "--json").splitlines()[-1])["instants"]
    print(
        f"{'ingestion of flights':24} {'success':11} after {time.monotonic() - begin:5.1f} s: {len(instants)} instants"
    )
    after = int(run("python", "-c", count))
    if len(instants) < 2 or after != before:
        raise CheckFailure(f"expected 2 instants and {before} rows, found {len(instants)} and {after}")


def _image_environment() -> dict[str, str]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (block,) = re.findall(r"^ENV ((?:.*\\\n)*.*)$", text, re.MULTILINE)
    return dict(re.findall(r"(\w+)=(\S+)", block))


def _postgres_path() -> list[str]:
    return [str(folder) for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]


def _postgres_command(mapping: Mapping, environment: dict[str, str]) -> list[str]:
    """Make the cluster as the image does on its first start; return the server's command.

    Raises:
        CheckFailure: PostgreSQL is not installed.
    """
    programs = shutil.which("initdb", path=environment["PATH"])
    if programs is None:
        raise CheckFailure("PostgreSQL is not installed\n  Next: apt-get install postgresql")
    data, user, password = mapping.folder / "postgres", environment["POSTGRES_USER"], mapping.folder / "password"
    password.write_text(environment["POSTGRES_PASSWORD"], encoding="utf-8")
    data.mkdir()
    prefix: list[str] = []
    if os.geteuid() == 0:  # it refuses to run as root
        prefix = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        for place in (data, password):
            shutil.chown(place, "postgres", "postgres")
        mapping.folder.chmod(0o755)
    initdb = [programs, "--pgdata", str(data), "--username", user, "--pwfile", str(password), "--auth", "scram-sha-256"]
    server = [str(Path(programs).with_name("postgres")), "-D", str(data), "-k", str(data)]
    server += ["-h", "127.0.0.1", "-p", environment["PGPORT"]]
    subprocess.run([*prefix, *initdb], check=True, capture_output=True, cwd=data)
    create = ["sh", "-c", 'until "$0" --quiet; do sleep 0.2; done; exec "$1" "$2"', "pg_isready", "createdb"]
    subprocess.Popen(
        [*create, environment["POSTGRES_DB"]],
        env={**environment, "PGUSER": user, "PGPASSWORD": environment["POSTGRES_PASSWORD"]},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return [*prefix, *server]


def _zookeeper_java() -> list[str]:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    return [java, "-cp", f"{Path(pyspark.__file__).parent}/jars/*"]


def _zookeeper_command(mapping: Mapping, environment: dict[str, str]) -> list[str]:
    """Write the settings that the image makes from its environment; return the server's command."""
    data = mapping.folder / "zookeeper"
    data.mkdir()
    lines = [*environment.get("ZOO_CFG_EXTRA", "").split(), "tickTime=2000", f"dataDir={data}"]
    lines += [f"clientPort={mapping.ports[2181]}", "clientPortAddress=127.0.0.1", "admin.enableServer=false"]
    settings = data / "zoo.cfg"
    settings.write_text("\n".join(lines) + "\n", encoding="utf-8")
    flags = environment.get("SERVER_JVMFLAGS", "").split()
    java, *path = _zookeeper_java()
    return [java, *flags, *path, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(settings)]


def _free_ports() -> dict[int, int]:
    """Choose free ports below those that the system hands out, which other programs may get before the service starts."""
    chosen: dict[int, int] = {}
    candidates = iter(random.SystemRandom().sample(range(12000, 30000), 1000))
    for port in PORTS:
        chosen[port] = next(candidate for candidate in candidates if _is_free(candidate))
    return chosen


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        return candidate.connect_ex(("127.0.0.1", port)) != 0


def main() -> int:
    """Check in a temporary folder; with --keep the logs stay."""
    parser = argparse.ArgumentParser(prog="bin/compose-check", description=__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="keep the folder with the logs")
    keep = parser.parse_args().keep
    # However this program is ended, the services end with it.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    signal.signal(signal.SIGINT, lambda number, frame: sys.exit(128 + number))
    folder = Path(tempfile.mkdtemp(prefix="hudi-ops-compose-"))
    print(f"folder: {folder}", flush=True)
    try:
        check(folder)
    except CheckFailure as error:
        print(f"compose-check: {error}", file=sys.stderr)
        return 1
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
