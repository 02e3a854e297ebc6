"""Stands in for `spark-submit`: a real process that ends, hangs or chatters as the test's environment says.

Only how an application ends matters to the operator, and a JVM adds ten seconds to each way of ending.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

arguments = sys.argv[1:]
how = os.environ["STAND_IN"]
umask = os.umask(0o777)
os.umask(umask)
seen = {"argv": arguments, "pid": os.getpid(), "sid": os.getsid(0), "umask": umask}
seen |= {"requester": os.environ.get("HUDI_OPS_REQUESTER"), "python": os.environ.get("PYSPARK_DRIVER_PYTHON")}
Path(os.environ["STAND_IN_RECORD"]).write_text(json.dumps(seen))
stop_file = Path(arguments[arguments.index("--stop-file") + 1])


def last_line(**fields: object) -> None:
    print("INFO something of the JVM", file=sys.stderr)
    print(json.dumps({"app": "ingest", **fields}), flush=True)
    for number in range(50):
        print(f"INFO ShutdownHookManager: line {number}", file=sys.stderr)


def wait_for_stop() -> None:
    end = time.monotonic() + 60
    while not stop_file.exists() and time.monotonic() < end:
        if how == "chatter":  # more than a pipe holds, so that it can only go on when somebody reads
            print("x" * 4096, flush=True)
        time.sleep(0.02)


if how == "ok":
    print('{"app": "other"}')
    print("{not json")
    last_line(ok=True, instant="20260101000000000", inserted=3)
elif how == "warns":
    print("2026-11-23 06:31:02,123 ERROR hudi_ops.app: it went wrong at first\n  Next: look again")
    print("2026-11-23 06:31:03,123 INFO hudi_ops.app: it went on")
    last_line(ok=True, table="trips", instant=None, note="nothing new")
elif how == "silent":
    print("no result")
elif how == "crash":
    sys.exit(1)
elif how in {"stop", "chatter"}:
    wait_for_stop()
    if how == "chatter":
        print("y" * 1_000_000, flush=True)
    last_line(ok=False, error="Cancelled", exit_code=12, message="stopped on request")
    sys.exit(12)
elif how == "deaf":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    Path(os.environ["STAND_IN_RECORD"]).write_text(json.dumps({"pid": os.getpid(), "child": child.pid}))
    child.wait()
else:
    last_line(ok=False, error="Boom", exit_code=int(how), message="it went wrong")
    sys.exit(int(how))
