"""Create the table `flights` and ingest the first wave of the demo, as the service `flights-init` does.

A second run ingests nothing: each file of the source is taken once. With the name of another wave, only its files are written, for
the ingestion DAG to take.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hudi_ops.cli.main import main
from hudi_ops.config.tables_file import locate_table
from hudi_ops.errors import InvalidRequest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from flights_data import WAVES, read_source, wave, wave_files, write_wave


def run(name: str = WAVES[0], *, only_lands: bool = False) -> int:
    """Write the files of a wave once, create the table, and ingest them; return the exit code.

    Args:
        name: the wave.
        only_lands: leaves table and ingestion out.

    Raises:
        InvalidRequest: tables.yaml declares no source of the table.
    """
    location = locate_table("flights")
    if location.declaration is None or location.declaration.source is None:
        raise InvalidRequest("flights has no source", next_step="declare one in tables.yaml")
    source = Path(location.declaration.source)
    files = wave_files(name, source)
    if not all(file.exists() for file in files):
        list(write_wave(wave(read_source(), name), name, source))
    if not Path(location.path, ".hoodie", "hoodie.properties").exists():
        code = main(["create", "flights", "--like", str(files[0])])
        if code:
            return code
    return main(["ingest", "flights"])


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], only_lands=True) if len(sys.argv) > 1 else run())
