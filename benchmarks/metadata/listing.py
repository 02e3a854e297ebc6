"""Listing a table by its metadata table, beside listing its folders on local disk.

`python -m benchmarks.metadata.listing`: tables of 1,000, 10,000 and 100,000 files, in partitions of a hundred; see `stand_ins.py`.
`all` lists all of them, `one` the files of one partition; the metadata table is opened anew for each. The files of both must be the
same. Storage calls are counted beside it: on an object store each is a round trip.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.harness import machine
from benchmarks.harness.places import RESULTS
from benchmarks.harness.storage_calls import CountingStorage
from benchmarks.metadata.in_turn import measured, publish, table_of
from benchmarks.metadata.stand_ins import make_table
from hudi_ops.metadata.reader.listing import ListingChoice, open_listing
from hudi_ops.metadata.reader.table import open_metadata
from hudi_ops.read.plan import Opened
from hudi_ops.storage.protocol import Storage
from hudi_ops.view.listing import Listing

CHOICES: tuple[ListingChoice, ...] = ("metadata", "storage")
_ABOUT = "Data files are stand-ins of one byte: a listing asks of names and sizes alone. Local disk, warm page cache."


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table.

    Returns:
        0; 1 when the two listings of a table are not the same.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metadata.listing", description=__doc__)
    parser.add_argument("--files", type=_numbers, default=[1_000, 10_000, 100_000], help="sizes of tables")
    parser.add_argument("--runs", type=int, default=7, help="counted rounds")
    parser.add_argument("--work", type=Path, default=RESULTS / "work-metadata-listing", help="scratch folder, emptied")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the runs and the report go")
    options = parser.parse_args(arguments)
    runs, calls = [], {}
    for files in options.files:
        shutil.rmtree(options.work, ignore_errors=True)
        storage = make_table(options.work / "table", files).context.storage
        opened = Opened.of(storage)
        found = {one: _all(storage, opened, one) for one in CHOICES}
        if found["metadata"] != found["storage"] or sum(map(len, found["storage"].values())) != files:
            print(f"of {files} files the two listings are not the same", file=sys.stderr)
            return 1
        partition = sorted(found["storage"])[-1]
        for case, call in (("all", _all), ("one", partial(_one, partition))):
            name = f"{case}-{files}"
            runs += measured(name, {one: partial(call, storage, opened, one) for one in CHOICES}, options.runs)
            for one in CHOICES:
                calls[name, one] = [str(_calls(storage, call, opened, one))]
    shutil.rmtree(options.work, ignore_errors=True)
    facts = "\n".join(f"- {key}: {value}" for key, value in machine.machine().items())
    table = table_of(runs, calls, ["storage calls"], "metadata")
    publish("listing", f"# Listings\n\n{_ABOUT}\n\n{facts}\n\n{table}\n", runs, options.results)
    return 0


def _listing(storage: Storage, opened: Opened, choice: ListingChoice) -> Listing:
    metadata = open_metadata(storage, opened.config, opened.timeline) if choice == "metadata" else None
    return open_listing(storage, opened.config, metadata, choice)


def _all(storage: Storage, opened: Opened, choice: ListingChoice) -> dict[str, list[tuple[str, int]]]:
    files = _listing(storage, opened, choice).walk().files
    return {partition: [(file.path, file.size_bytes) for file in held] for partition, held in files.items()}


def _one(partition: str, storage: Storage, opened: Opened, choice: ListingChoice) -> None:
    _listing(storage, opened, choice).files([partition])


def _calls(storage: Storage, call: Callable[..., object], opened: Opened, choice: ListingChoice) -> int:
    counting = CountingStorage(storage)
    call(counting, opened, choice)
    return sum(counting.calls.values())


def _numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
