"""Reader and writer of `hoodie.properties`, with recovery from a half-done update.

Source: docs/format §1.4.
"""

from __future__ import annotations

from collections.abc import Mapping

from hudi_ops.config.table import BACKUP_PATH, PROPERTIES_PATH, TableConfig
from hudi_ops.errors import Corrupt, InvalidRequest, NotFound
from hudi_ops.formats import properties
from hudi_ops.storage.protocol import Storage
from hudi_ops.timeline.names import instant_of_ms

FOLDED_KEY = "hudi_ops.properties_slot"
"""Key of this library: the newest slot of the commit log that is folded into the file.

Apache Hudi 1.1 keeps unknown keys when it rewrites the file; 1.0 drops them.
"""


def folded_slot(values: Mapping[str, str]) -> int | None:
    """Return the newest slot that is folded into the file; None when the file does not name it."""
    text = values.get(FOLDED_KEY, "")
    return int(text) if text.isdecimal() else None


def read_properties(storage: Storage) -> dict[str, str]:
    """Read the properties in force, from the file or from its backup.

    The backup counts when the file is missing, empty or fails its checksum.

    Raises:
        InvalidRequest: neither file exists: the path is not a table.
        Corrupt: a file exists, and neither it nor the backup can be read.
    """
    problem: Corrupt | None = None
    # Apache Hudi removes the backup once the new file exists: if neither was found, the file was read too early.
    for path in (PROPERTIES_PATH, BACKUP_PATH, PROPERTIES_PATH):
        try:
            values = properties.loads(storage.get(path), path)
            _check(values, path)
        except NotFound:
            continue
        except Corrupt as error:
            problem = problem or error
            continue
        return values
    if problem is not None:
        raise problem
    raise InvalidRequest(
        f"{storage.uri} is not a Hudi table",
        expected=PROPERTIES_PATH,
        found="no such file",
        next_step="check the path, or create a table with `hudi-ops create`",
    )


def load_config(storage: Storage) -> TableConfig:
    """Read the table's settings from the file, not compared with the log.

    Raises:
        InvalidRequest: the path is not a table.
        Corrupt: the file and its backup are broken.
        Unsupported: a table version that cannot be opened.
    """
    return TableConfig.from_properties(read_properties(storage))


def read_backup(storage: Storage) -> dict[str, str] | None:
    """Return the properties from before an unfinished rewrite of the file, or None."""
    try:
        values = properties.loads(storage.get(BACKUP_PATH), BACKUP_PATH)
        _check(values, BACKUP_PATH)
    except (NotFound, Corrupt):
        return None
    return values


def write_properties(storage: Storage, values: dict[str, str], now_ms: int, *, first: bool) -> None:
    """Replace the file in one atomic put: readers see the old or the new one."""
    instant = instant_of_ms(now_ms)
    stamp = (
        f"{instant[:4]}-{instant[4:6]}-{instant[6:8]}T{instant[8:10]}:{instant[10:12]}:{instant[12:14]}.{instant[14:]}Z"
    )
    comment = f"Properties saved on {stamp}" if first else f"Updated at {stamp}"
    storage.put(PROPERTIES_PATH, properties.dumps(values, comment=comment, now_ms=now_ms))
    # Hadoop's local file system keeps a checksum beside each file it wrote, and refuses a file that does not match it.
    storage.delete(".hoodie/.hoodie.properties.crc")


def _check(values: dict[str, str], path: str) -> None:
    found = values.get("hoodie.table.checksum")
    if found is None:
        return
    expected = properties.table_checksum(values.get("hoodie.table.name", ""), values.get("hoodie.database.name", ""))
    if found != expected:
        raise Corrupt(
            f"{path} fails its checksum",
            expected=f"hoodie.table.checksum={expected}",
            found=found,
            next_step="an update of the file was cut short: restore it from a copy of the table",
        )
