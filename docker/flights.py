"""Create the table `flights` and ingest the first wave of the demo, as the service `flights-init` does.

A second run ingests nothing: each file of the source is taken once.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hudi_ops.cli.main import main
from hudi_ops.config.tables_file import locate_table
from hudi_ops.errors import InvalidRequest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from flights_data import WAVES, read_source, wave, wave_files, write_wave


def run() -> int:
    """Write the files of the wave once, create the table, and ingest them; return the exit code.

    Raises:
        InvalidRequest: tables.yaml declares no source of the table.
    """
    location = locate_table("flights")
    if location.declaration is None or location.declaration.source is None:
        raise InvalidRequest("flights has no source", next_step="declare one in tables.yaml")
    source = Path(location.declaration.source)
    name = WAVES[0]
    files = wave_files(name, source)
    if not all(file.exists() for file in files):
        list(write_wave(wave(read_source(), name), name, source))
    if not Path(location.path, ".hoodie", "hoodie.properties").exists():
        code = main(["create", "flights", "--like", str(files[0])])
        if code:
            return code
    return main(["ingest", "flights"])


if __name__ == "__main__":
    sys.exit(run())
