"""Tables that Apache Hudi wrote, and that were not adopted, have a verdict, too."""

from __future__ import annotations

import shutil
from pathlib import Path

from hudi_ops.health.many import health_of_tables
from hudi_ops.health.unadopted import NOTE

TABLES = Path(__file__).resolve().parents[2] / "fixtures" / "apache-hudi-tables"
PENDING = {
    "v9_bucket_consistent_pending_resize": {"resize"},
    "v9_mor_pending_compaction_clustering": {"cluster", "compact"},
}


def test_every_table_of_apache_hudi_has_a_verdict(tmp_path: Path) -> None:
    names = {}
    for packed in sorted(TABLES.glob("*.zip")):
        shutil.unpack_archive(packed, tmp_path / packed.stem)
        for found in (tmp_path / packed.stem).rglob(".hoodie/hoodie.properties"):
            if ".hoodie/metadata" not in str(found):
                names[str(found.parent.parent)] = packed.stem
    verdicts = {names[one.table]: one for one in health_of_tables(list(names))}
    assert len(verdicts) >= 10
    for name, verdict in verdicts.items():
        assert verdict.error is None, verdict.summary()
        assert verdict.note == NOTE
        assert all(one.error is None for one in verdict.checks), verdict.summary()
        plans = next(one for one in verdict.checks if one.check == "plans")
        assert {command.split()[1] for command in plans.commands} == PENDING.get(name, set())
