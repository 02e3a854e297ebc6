"""The program as a whole: help, version, exit codes, interrupts and pipes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from hudi_ops.cli.main import app
from hudi_ops.cli.tables import inspect
from hudi_ops.errors import HudiOpsError
from tests.unit.cli.terminal import at_terminal

COMMANDS = ["create", "ingest", "delete-partition", "truncate", "read", "timeline", "show", "verify", "lock"]


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from hudi_ops.cli.main import main\n"
        "codes = [main([*words, '--help']) for words in ([], *([c] for c in sys.argv[1:]))]\n"
        "heavy = {'pyarrow', 'numpy', 'pandas', 'pyspark', 'airflow', 'fastavro', 'sqlglot', 'sqlalchemy'}\n"
        "print(sorted(heavy & set(sys.modules)), set(codes))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *COMMANDS], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "[] {0}", done.stderr


def test_no_command_loads_pandas(trips: Path) -> None:
    """Arrow would import it for the first value that it converts, which takes a second; other importers get it."""
    program = (
        "import atexit, sys\n"
        "from hudi_ops.cli.main import run\n"
        "atexit.register(lambda: print('pandas' in sys.modules, __import__('pandas').__name__))\n"
        "run()\n"
    )
    for words in (["verify", str(trips), "--deep", "--index"], ["read", str(trips), "--where", "ts > 0"]):
        done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "False pandas"), done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_tells_the_purpose_and_shows_examples(call: Callable[..., Any], command: str) -> None:
    answer = call(command, "--help")
    assert answer.code == 0
    examples = [line for line in answer.out.splitlines() if line.strip().startswith(f"hudi-ops {command} ")]
    assert len(examples) >= 2
    assert "Raises" not in answer.out
    assert "--json" in answer.out


def test_the_version_is_that_of_the_package(program: Callable[..., Any]) -> None:
    from importlib.metadata import version

    answer = program("--version")
    assert (answer.code, answer.out) == (0, f"hudi-ops {version('hudi-ops')}\n")


def test_no_command_shows_the_help(program: Callable[..., Any]) -> None:
    answer = program()
    assert answer.code == 2
    assert all(command in answer.out + answer.err for command in [*COMMANDS, "zookeeper"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["read"], "TABLE"),
        (["read", "trips", "--bogus"], "--bogus"),
        (["raed", "trips"], "raed"),  # codespell:ignore raed
        (["read", "trips", "--limit", "many"], "--limit"),
    ],
)
def test_a_wrong_call_is_one_sentence_and_2(call: Callable[..., Any], arguments: list[str], says: str) -> None:
    answer = call(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert says in answer.err
    told = call(*arguments, "--json")
    assert (told.code, told.json["error"], told.json["exit_code"], told.err) == (2, "InvalidRequest", 2, "")
    assert says in told.json["message"]


def test_the_module_runs_too(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hudi_ops.cli.main", "read", "trps", "--json"],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    assert "Did you mean 'trips'" in json.loads(done.stdout)["next_step"]


@pytest.mark.parametrize("kind", HudiOpsError.__subclasses__())
def test_every_error_ends_with_the_code_of_its_class(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, kind: type[HudiOpsError]
) -> None:
    def fail(_: str) -> None:
        raise kind("it went wrong", next_step="do this")

    monkeypatch.setattr(inspect, "locate", fail)
    answer, told = call("read", "trips"), call("read", "trips", "--json")
    assert answer.code == told.code == told.json["exit_code"] == kind.exit_code
    assert answer.err == "error: it went wrong\n  Next: do this\n"
    assert (told.json["error"], told.json["next_step"]) == (kind.__name__, "do this")


def test_an_unknown_error_asks_for_a_report(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(inspect, "locate", fail)
    answer = call("read", "trips")
    assert answer.code == 70
    assert "unexpected ZeroDivisionError: by nothing" in answer.err
    assert "please report it" in answer.err
    assert "Traceback" not in answer.err
    assert "Traceback" in call("-v", "read", "trips").err
    assert call("read", "trips", "--json").json["error"] == "Internal"


def test_an_interrupt_is_130(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(inspect, "locate", interrupt)
    answer, told = call("read", "trips"), call("read", "trips", "--json")
    assert (answer.code, answer.err) == (130, "error: interrupted\n")
    assert (told.code, told.json["error"], told.err) == (130, "Interrupted", "")


WAITING = """
import threading
from hudi_ops.cli.tables import inspect
from hudi_ops.cli.main import run
from tests.unit.cli.terminal import at_terminal

def wait(table):
    print("working", flush=True)
    threading.Event().wait()

inspect.locate = wait
run()
"""


def test_a_real_interrupt_ends_the_process() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, "read", "trips"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A run in the background of a shell inherits an ignored SIGINT, which Python then leaves ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "working\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "error: interrupted\n")


def test_a_reader_that_goes_away_is_no_error(trips: Path, home: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "hudi_ops.cli.main", "read", "trips"],
        cwd=home,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_verbose_logs_to_the_error_output(trips: Path, program: Callable[..., Any]) -> None:
    quiet, loud = program("ingest", "trips", "--json"), program("-v", "create", "riders", "--key=id", "--json", *LIKE)
    assert quiet.err == ""
    assert "INFO hudi_ops" in loud.err
    assert loud.json["created"] is True


LIKE = ("--like", "landing/first.parquet")


def on_a_terminal(home: Path, *arguments: str) -> str:
    """What a person sees on a terminal of 100 columns."""
    code, seen = at_terminal(home, "", *arguments)
    assert code == 0, seen
    return seen


@pytest.mark.full("asks at a terminal of its own")
def test_progress_is_shown_on_a_terminal_only(trips: Path, home: Path, program: Callable[..., Any]) -> None:
    assert "reading trips" in on_a_terminal(home, "read", "trips")
    assert "reading trips" not in program("read", "trips").err


@pytest.mark.full("asks at a terminal of its own")
def test_a_terminal_gets_a_table_that_fits(trips: Path, home: Path) -> None:
    seen = on_a_terminal(home, "read", "trips", "--limit", "2")
    assert "Oslo" in seen
    assert "1 more row" in seen
    assert "_hoodie_" not in seen
    assert "_hoodie_commit_time" in on_a_terminal(home, "read", "trips", "--meta")
    assert "more columns" in on_a_terminal(home, "read", "trips", "--meta")


@pytest.mark.parametrize("document", ["README.md", "docs/tables.md"])
def test_every_call_in_the_documents_is_one_of_the_program(document: str) -> None:
    """As it would be pasted: no pipes, known commands, known options."""
    text = (Path(__file__).parents[3] / document).read_text(encoding="utf-8")
    calls = [line for line in text.splitlines() if line.startswith("hudi-ops ")]
    assert len(calls) > 2
    for line in calls:
        words = shlex.split(line, comments=True)[1:]
        assert not {"|", ";", "&"} & set(words), line
        command = typer.main.get_command(app)
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= known, line
