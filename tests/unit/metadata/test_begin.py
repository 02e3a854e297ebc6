"""How a metadata table begins: its properties are those of Apache Hudi's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hudi_ops.formats import properties
from hudi_ops.metadata.writer.begin import PROPERTIES_PATH, metadata_properties
from hudi_ops.storage.local import LocalStorage
from hudi_ops.timeline.settings.properties_file import load_config


@pytest.mark.parametrize("name", ["v8_trips_8i3u1d_mor", "v9_all_types_metadata_mor"])
def test_its_properties_are_those_of_apache_hudi(hudi_fixtures: Callable[[str], Path], name: str) -> None:
    storage = LocalStorage(str(hudi_fixtures(name)))
    assert metadata_properties(load_config(storage)) == properties.loads(storage.get(PROPERTIES_PATH))
