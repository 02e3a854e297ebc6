"""The world has its rooms: time, randomness, threads, files, environment, network and processes are used nowhere else.

Goal: every protocol can run under the simulation, step by step and with crashes, which works only if nothing reaches
past the `TableContext`. Method: names are followed through imports in the syntax tree, and each use is looked up in
the list below.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "hudi_ops"

OS_FILE_FUNCTIONS = {
    *("access", "chmod", "close", "fdopen", "fstat", "fsync", "link", "listdir", "makedirs", "mkdir", "open"),
    *("path.exists", "path.getmtime", "path.getsize", "path.isdir", "path.isfile", "read", "readlink", "remove"),
    *("rename", "replace", "rmdir", "scandir", "stat", "symlink", "truncate", "unlink", "utime", "walk", "write"),
}

# What belongs to which part of the world; a name stands for itself and for all below it.
# Left out: one's own process id and host name, which steer nothing, and uuid5, which is arithmetic.
WORLDS: dict[str, tuple[str, ...]] = {
    "time": (
        "time",
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
        "datetime.datetime.today",
        "datetime.date.today",
    ),
    "randomness": ("uuid.uuid1", "uuid.uuid4", "random", "secrets", "numpy.random", "os.urandom"),
    "threads": ("threading", "_thread", "multiprocessing", "concurrent.futures", "asyncio", "queue"),
    "files": (
        "open",
        "io.open",
        "gzip.open",
        "shutil",
        "tempfile",
        "glob",
        "fcntl",
        "pathlib.Path.cwd",
        "pathlib.Path.home",
        "pyarrow.OSFile",
        "pyarrow.memory_map",
        "pyarrow.fs",
        *(f"os.{name}" for name in OS_FILE_FUNCTIONS),
    ),
    "environment": ("os.environ", "os.getenv", "sys.argv", "os.getcwd", "platform"),
    "processes": (
        "subprocess",
        "signal",
        "atexit",
        *(f"os.{name}" for name in ("fork", "kill", "killpg", "register_at_fork", "system")),
    ),
    "network": (
        "socket.socket",
        "socket.create_connection",
        "socket.create_server",
        "socket.getaddrinfo",
        "http",
        "urllib.request",
        "requests",
        "kazoo",
        "obstore",
        "ssl",
        "urllib3",
        "uvicorn",
    ),
}

# Methods of pathlib that touch the disk, whatever the path is called; nothing else here has methods of these names.
PATH_METHODS = {
    "read_text",
    "read_bytes",
    "write_text",
    "write_bytes",
    "iterdir",
    "rglob",
    "touch",
    "unlink",
    "is_file",
    "is_dir",
}

# Who may use what; an entry that is no longer needed fails too. `cli` and `testing` are doors and tools: anything goes.
ALLOWED: dict[str, set[str]] = {
    "clock.py": {"time"},
    "concurrency/lease/heartbeat_process.py": {"environment", "files", "network", "processes", "threads", "time"},
    "concurrency/lock/in_process.py": {"threads"},
    "concurrency/lease/lease.py": {"threads"},
    "concurrency/lease/heartbeat_client.py": {"environment", "network", "processes", "threads"},
    "concurrency/lease/heartbeat_threads.py": {"threads"},
    "concurrency/lease/watcher.py": {"processes", "threads"},
    "concurrency/lock/zookeeper.py": {"network", "threads", "time"},
    "concurrency/lock/zookeeper_session.py": {"network", "randomness", "threads", "time"},
    "config/places.py": {"environment", "files"},
    "config/tables_file.py": {"environment", "files"},
    "datasource/plain_errors.py": {"environment"},
    "view/remote/token_file.py": {"files"},
    "config/zookeeper_settings.py": {"environment"},
    "context.py": {"environment", "files", "processes", "randomness"},
    "engine/local.py": {"threads"},
    "engine/memory.py": {"files"},
    "engine/progress.py": {"threads"},
    "engine/spill.py": {"files", "threads"},
    "engine/spilled_bytes.py": {"files"},
    "engine/spark.py": {"threads"},
    "engine/stopping.py": {"threads"},
    "engine/stream.py": {"threads"},
    "files/new_files.py": {"threads"},
    "files/slice/survivors.py": {"threads"},
    "health/many.py": {"threads"},
    "page/asset_files.py": {"files"},
    "page/child.py": {"environment", "processes", "threads"},
    "page/threads.py": {"threads"},
    "page/work/__main__.py": {"files", "processes"},
    "registry/best_effort.py": {"environment", "randomness", "threads"},
    "registry/cpu.py": {"files"},
    "registry/database.py": {"environment"},
    "registry/migrate.py": {"files"},
    "server/app.py": {"threads", "time"},
    "server/run.py": {"network"},
    "server/table.py": {"threads", "time"},
    "storage/bucket.py": {"environment", "network"},
    "storage/disk.py": {"files"},
    "storage/folder_names.py": {"files", "time"},
    "storage/local.py": {"files", "randomness"},
    "storage/memory.py": {"files", "threads"},
    "storage/object_store.py": {"network", "processes", "randomness", "threads"},
    "view/remote/client.py": {"network", "threads", "time"},
    "view/stores/view_file.py": {"files"},
    "view/stores/view_folder.py": {"files", "time"},
}
OPEN_ROOMS = ("cli/", "testing/", "concurrency/lock/embedded_zookeeper.py")


def names_imported(tree: ast.Module) -> dict[str, str]:
    """Local name -> full name, for every import that happens at run time."""
    for_types = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for node in ast.walk(branch)
    }
    names = {}
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                local = alias.asname or alias.name.split(".")[0]
                names[local] = alias.name if alias.asname else local
                names.setdefault(alias.name, alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return names


def names_used(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every full name that the code reaches, with its line; imports count as uses."""
    names = names_imported(tree)
    yield from ((full, 0) for full in names.values())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            dotted = ast.unparse(node)
            first, _, rest = dotted.partition(".")
            if first in names and dotted.replace(".", "").replace("_", "").isalnum():
                yield f"{names[first]}.{rest}", node.lineno
            if node.attr in PATH_METHODS:
                yield "open", node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield names.get("open", "open"), node.lineno


def uses_of_the_world(file: Path) -> dict[str, list[str]]:
    """World -> names used in a file, with their lines."""
    found: dict[str, list[str]] = {}
    for name, line in names_used(ast.parse(file.read_text(encoding="utf-8"))):
        for world, members in WORLDS.items():
            if any(name == member or name.startswith(f"{member}.") for member in members):
                found.setdefault(world, []).append(f"{name}:{line}" if line else name)
    return found


def test_the_world_is_used_only_in_its_rooms():
    offenders = []
    for file in sorted(PACKAGE.rglob("*.py")):
        room = file.relative_to(PACKAGE).as_posix()
        if not room.startswith(OPEN_ROOMS):
            for world, uses in uses_of_the_world(file).items():
                if world not in ALLOWED.get(room, set()):
                    offenders.append(f"{room}: {world} ({', '.join(uses)})")
    assert offenders == []


def test_every_permission_is_needed():
    unneeded = []
    for room, worlds in ALLOWED.items():
        file = PACKAGE / room
        unused = worlds - set(uses_of_the_world(file)) if file.exists() else worlds
        unneeded += [f"{room}: {world}" for world in sorted(unused)]
    assert unneeded == []


def test_a_use_is_found_however_it_is_written(tmp_path: Path):
    file = tmp_path / "sample.py"
    for source, world in {
        "import time\ntime.sleep(1)": "time",
        "from time import sleep as rest\nrest(1)": "time",
        "import datetime as d\nd.datetime.now()": "time",
        "from datetime import datetime\ndatetime.now()": "time",
        "import numpy as np\nnp.random.default_rng()": "randomness",
        "from uuid import uuid4": "randomness",
        "from concurrent.futures import ThreadPoolExecutor": "threads",
        "open('x')": "files",
        "from pathlib import Path\nPath('x').read_text()": "files",
        "import os\nos.replace('a', 'b')": "files",
        "import os\nos.environ['X']": "environment",
        "import urllib.request": "network",
    }.items():
        file.write_text(source, encoding="utf-8")
        assert world in uses_of_the_world(file), source
    file.write_text(
        "from datetime import datetime, UTC\nimport os\ndatetime(2024, 1, 1, tzinfo=UTC)\nos.path.join('a')"
    )
    assert uses_of_the_world(file) == {}
